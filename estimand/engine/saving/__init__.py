"""From a model to its checkpoints and back: when one is taken, what goes into it, what is filled.

The files themselves are those of `engine/checkpoints`.
"""
