"""Pictures of a report: what they tell, and what does not lie over it."""

from __future__ import annotations

import numpy as np

from estimand.report import figures
from estimand.report.classification import Points


def test_time_of_each_run_is_stacked_by_kind_in_a_unit_that_fits() -> None:
    runs = {"a": {"input": 600.0, "steps": 60.0}, "b": {"steps": 30.0}}
    input_bar, steps_bar = figures.time_spent(runs, ["input", "steps"]).data
    assert list(steps_bar.y) == ["b", "a"]  # drawn from below
    assert list(input_bar.x) == [0.0, 10.0] and list(steps_bar.x) == [0.5, 1.0]  # minutes
    assert input_bar.customdata[1] == 600 / 660
    assert input_bar.marker.color != steps_bar.marker.color


def test_one_line_alone_tells_its_area_as_well() -> None:
    line = Points("yes", np.array([0.0, 1.0]), np.array([1.0, 0.5]), area=0.9)
    (drawn,) = figures.lines([line], "recall", "precision").data
    assert drawn.name == "yes (0.900)" and drawn.showlegend


def test_no_grid_lies_over_the_numbers_of_a_confusion() -> None:
    layout = figures.confusion(np.array([[3, 1], [1, 3]]), ["a", "b"]).layout
    assert (layout.xaxis.showgrid, layout.yaxis.showgrid) == (False, False)
