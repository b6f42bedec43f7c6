"""Checkpoints: what a model saves, how files appear and disappear, what is read back and kept.

`api` is the page in front. `SavePolicy` says when one is due and `KeepPolicy` what stays; it is the
loop, or a hook, that asks them.
"""
