"""The `estimand` command. One file per command; TensorFlow is imported only inside commands."""
