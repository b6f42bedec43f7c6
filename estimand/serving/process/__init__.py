"""The server's processes: the one that listens, its workers, and what they say to each other."""
