"""A report of trainings: one HTML file, with pictures, that needs nothing else.

`history.py` reads what a model_dir holds, `sample.py` takes rows and has the model answer them,
`classification.py`, `regression.py` and `importance.py` judge the answers, `figures.py` draws,
`page.py` is the page,
`report.py` puts it together and writes nothing into a model_dir. `board/` does: it writes the same
for TensorBoard.
"""

from estimand.report.board import write as write_board
from estimand.report.report import write as write

__all__ = ["write", "write_board"]
