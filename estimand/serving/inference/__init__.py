"""What is asked of a loaded version, in arrays: predict, classify, regress, metadata, status."""
