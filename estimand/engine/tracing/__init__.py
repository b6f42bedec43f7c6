"""From a model function to a traced graph: the trace, its variables, its effects.

Nothing here runs a step: that is `engine/running`.
"""
