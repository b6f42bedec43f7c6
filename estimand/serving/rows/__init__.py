"""Which programs may answer several requests in one call: proven from the graph, never guessed.

Requests are joined by putting their rows one after the other. That is right if, for each output,
the rows of one request are what it would have been answered alone, whoever else is in the batch.
`proof` evaluates the graph with values that stand for all possible ones (`values`), whose sizes are
products of numbers and symbols (`sizes`), operation by operation (`elementwise`, `shaping`,
`layers`, `sparse`, `lists`), through functions, branches and loops (`walk`). An operation that is
not known here, or a use of it that is not, makes its result mixed, and what depends on it too.
"""
