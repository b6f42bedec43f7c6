"""The ops of a step as messages: cut out of a traced graph, made smaller, placed elsewhere.

Nothing here knows of a trace or runs anything.
"""
