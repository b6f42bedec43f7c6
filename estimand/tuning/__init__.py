"""Searching for good parameters, on Optuna: `search`, and what is made of its results.

`space.py` reads what is searched, `studies.py` keeps the trials in a SQLite file and hands them out
to processes, `trials.py` runs one, `results.py` tells what came out. Optuna is imported when it is
used.
"""

from estimand.tuning.results import as_text as as_text
from estimand.tuning.results import rows as rows
from estimand.tuning.results import write_page as write_page
from estimand.tuning.search import search as search

__all__ = ["as_text", "rows", "search", "write_page"]
