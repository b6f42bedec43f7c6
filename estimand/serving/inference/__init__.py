"""What is asked of a loaded version: predict, classify, regress, warm-up; and the log of it."""
