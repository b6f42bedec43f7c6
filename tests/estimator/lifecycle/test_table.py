"""The rows of evaluations, and the block at the end, as they are read."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimand.core.spec import EvalSpec
from estimand.estimator.lifecycle.closing import closing_lines
from estimand.estimator.lifecycle.evaluator import SpecEvaluator
from estimand.estimator.lifecycle.table import ResultsTable
from estimand.export.best import BestExporter, Record

# In the order of a binary head.
FIRST = {
    "average_loss": np.float32(0.7), "accuracy": 0.5, "precision": 0.25, "recall": 0.125,
    "label/mean": 0.5, "accuracy_baseline": 0.5, "auc": 0.75, "picture": b"...",
    "loss": np.float32(0.75), "global_step": np.int64(100),
}  # fmt: skip


def printed(width: int, *rows: dict[str, Any], named: bool = False, **options: Any) -> list[str]:
    stream = io.StringIO()
    table = ResultsTable(True, named, stream=stream, width=width, **options)
    for row in rows:
        table.add("dev" if named else None, row)
    return stream.getvalue().splitlines()


def test_what_matters_comes_first_with_whole_names_and_the_best_is_marked() -> None:
    later = {**FIRST, "loss": 0.5, "global_step": 200}
    worse = {**FIRST, "loss": float("nan"), "global_step": 300}
    assert printed(120, FIRST, later, worse) == [
        "    step      loss  accuracy  precision    recall       auc  average_loss  label/mean"
        "  accuracy_baseline",
        "     100      0.75       0.5       0.25     0.125      0.75           0.7         0.5"
        "                0.5  best",
        "     200       0.5       0.5       0.25     0.125      0.75           0.7         0.5"
        "                0.5  best",
        "     300       nan       0.5       0.25     0.125      0.75           0.7         0.5"
        "                0.5",
    ]


def test_columns_that_do_not_fit_are_left_out_whole() -> None:
    assert printed(60, FIRST, named=True) == [
        "    eval      step      loss  accuracy  precision",
        "     dev       100      0.75       0.5       0.25  best",
    ]
    assert printed(10, FIRST)[0] == "    step      loss"


def test_the_best_is_what_the_exporter_says() -> None:
    def higher_auc(best_eval_result: Any, current_eval_result: Any) -> bool:
        return bool(current_eval_result["auc"] > best_eval_result["auc"])

    better = {**FIRST, "auc": 0.8, "loss": 9.0}
    lines = printed(90, FIRST, better, FIRST, better=higher_auc)
    assert [line.endswith("best") for line in lines] == [False, True, True, False]


def test_in_a_notebook_it_is_one_table_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown[-1] = html

    class Display:
        HTML = str

        @staticmethod
        def display(html: str, display_id: bool) -> Handle:
            assert display_id
            shown.append(html)
            return Handle()

    monkeypatch.setattr("estimand.core.voice.in_notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", Display)
    monkeypatch.setitem(sys.modules, "IPython.display", Display)
    table = ResultsTable(None, named=False)
    table.add(None, {"loss": 0.75, "a<b": 0, "global_step": 50})
    assert shown[0].count("best") == 1
    table.add(None, {"loss": 0.5, "a<b": 1, "global_step": 100})
    table.add(None, {"loss": 0.75, "a<b": 2, "global_step": 200})
    assert shown == [
        "<table>\n"
        "<tr><th>step</th><th>loss</th><th>a&lt;b</th></tr>\n"
        "<tr><td>50</td><td>0.75</td><td>0</td></tr>\n"
        "<tr><td><b>100</b></td><td><b>0.5</b></td><td><b>1</b></td><td><b>best</b></td></tr>\n"
        "<tr><td>200</td><td>0.75</td><td>2</td></tr>\n"
        "</table>"
    ]


def test_the_end_tells_the_best_the_export_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exports = tmp_path / "runs" / "a b" / "export" / "best"
    (exports / "1700000000").mkdir(parents=True)
    (exports / "1700000000" / "saved_model.pb").touch()
    results = {"accuracy": 0.875, "label/mean": 0.5, "loss": 0.25, "global_step": 1500}
    Record(results, "1700000000", "model.ckpt-1500").save(str(exports.parents[1]), str(exports))
    spec = EvalSpec(lambda: None, name="dev", exporters=[BestExporter("best", lambda: None)])
    one = SpecEvaluator(None, spec)
    assert list(closing_lines(str(tmp_path / "runs" / "a b"), [one])) == [
        "best:     step 1,500 (dev)  loss 0.25  accuracy 0.875",
        "exported: runs/a b/export/best/1700000000",
        "next:     estimand serve 'runs/a b/export/best'",
        "watch:    estimand board 'runs/a b'",
    ]


def test_the_end_without_exports_tells_the_best_of_this_process(tmp_path: Path) -> None:
    one = SpecEvaluator(None, EvalSpec(lambda: None))
    one.best = {"loss": 0.5, "global_step": 20}
    assert list(closing_lines(os.path.join(os.sep, "elsewhere"), [one])) == [
        "best:     step 20  loss 0.5",
        "watch:    estimand board /elsewhere",
    ]
