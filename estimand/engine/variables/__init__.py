"""The variables of a model: made once, kept by name, found again by every trace.

`store` is the page to read first.
"""
