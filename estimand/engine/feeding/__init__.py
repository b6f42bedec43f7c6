"""Batches on their way into the traced step, and by what an input is known again."""
