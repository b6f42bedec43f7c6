"""Checkpoints: what a model saves, how files appear and disappear, what is read back and kept.

`api` is the page in front. Nothing here decides when to save: that is the loop's and the hooks'.
"""
