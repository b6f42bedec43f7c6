"""What a notebook shows of a training, in a real kernel; where there is one to be had."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

REPOSITORY = Path(__file__).resolve().parents[2]
CELLS = (
    """
import estimand as est
from tests.line import batches, endless, model_fn
""",
    """
model = est.Estimator(model_fn, "runs/line", est.RunConfig(tf_random_seed=1))
metrics, exports = est.train_and_evaluate(
    model,
    est.TrainSpec(endless, max_steps=40),
    est.EvalSpec(batches, steps=None, every_n_steps=20),
)
""",
    "evaluated = model.evaluate(batches)",
)


def shown(cell) -> list[str]:
    """The outputs of a cell in their order: lines of text, HTML without its tags."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found += output.text.splitlines()
        else:
            text = re.sub(r"</t[dh]>", " ", output.data["text/html"])
            found += [line.rstrip() for line in re.sub(r"<.*?>", "", text).splitlines() if line]
    for pattern, word in (
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b\d+:\d\d\b", "SPAN"),
        (r"[\d.,]+ steps/s", "N steps/s"),
        (r"/\S*/(runs)\b", r"HERE/\1"),
        (r"\b\d\.\d+(e-\d+)?", "X"),
    ):
        found = [re.sub(pattern, word, line) for line in found]
    return found


@pytest.mark.slow
def test_a_bar_a_table_and_a_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()
    _, training, evaluating = notebook.cells
    assert shown(training) == [
        "TIME training from step 0 to 40 in HERE/runs/line",
        "training  40/40 steps  N steps/s  loss X  elapsed SPAN",  # in the place of the bar
        "step loss mae",
        "20 X X",
        "40 X X best",
        "TIME best:     step 40  loss X  mae X",
        "TIME watch:    estimand board runs/line",
    ]
    assert shown(evaluating) == ["TIME evaluated step 40: loss X  mae X"]
