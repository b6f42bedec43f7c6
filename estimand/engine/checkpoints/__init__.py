"""The files of checkpoints: how they appear and disappear, what is read back, and what is kept.

`api` is the page in front. What joins them with a model is `engine/saving`.
"""
