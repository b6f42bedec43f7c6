"""Pictures of a report: what they tell, and what does not lie over it."""

from __future__ import annotations

import numpy as np

from estimand.report import figures
from estimand.report.classification import Points


def test_one_line_alone_tells_its_area_as_well() -> None:
    line = Points("yes", np.array([0.0, 1.0]), np.array([1.0, 0.5]), area=0.9)
    (drawn,) = figures.lines([line], "recall", "precision").data
    assert drawn.name == "yes (0.900)" and drawn.showlegend


def test_no_grid_lies_over_the_numbers_of_a_confusion() -> None:
    layout = figures.confusion(np.array([[3, 1], [1, 3]]), ["a", "b"]).layout
    assert (layout.xaxis.showgrid, layout.yaxis.showgrid) == (False, False)
