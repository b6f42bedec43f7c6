"""What a hook sees of a run: when it is called, what it may fetch, what looks like its session."""
