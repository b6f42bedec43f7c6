"""From a model function to a traced graph.

Nothing here runs a step: that is `engine/running`.
"""
