"""How far a run has come, told while it runs: to a terminal, a notebook or a log.

What is said is worked out once (`progress.py`: steps, a rate that stands still while something else
runs, the time left) and shown in three places (`screens.py`), of which only the terminal is rich's:
`rich.live` draws the line. Its `Progress` was not taken: it knows no log, no bar of a notebook
without ipywidgets, and no second run inside of a first.
"""
