"""Running the steps of a trace: the loop, the programs it calls, and what each way may be given.

`loop` is the page to read first. Nothing here calls a model function, or reads or writes a file.
"""
