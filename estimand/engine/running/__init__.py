"""Running the steps of a trace: the loop, the programs it calls, and what each way may be given.

`loop` is the page to read first. Nothing here knows of a model function or a file.
"""
