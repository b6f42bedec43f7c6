"""The page that an export carries about itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.export import card
from tests.export.conftest import input_fn, linear_model_fn, raw_receiver_fn, run_config


def test_a_card_tells_where_the_model_comes_from(tmp_path: Path) -> None:
    def model_fn(features, labels, mode, params):  # type: ignore[no-untyped-def]
        return linear_model_fn(features, labels, mode)

    params = {"rate": 0.5, "layers": (3, 1)}
    estimator = est.Estimator(model_fn, tmp_path / "m", run_config(), params).train(input_fn)
    result = estimator.evaluate(input_fn, name="holdout")
    path = Path(estimator.export_saved_model(tmp_path / "out", raw_receiver_fn).decode())
    written = json.loads((path / "assets.extra" / "model_card.json").read_text())
    assert written["checkpoint"] == estimator.latest_checkpoint()
    assert written["global_step"] == 6
    assert written["params"] == {"rate": 0.5, "layers": [3, 1]}
    assert written["metrics"]["holdout/mae"] == pytest.approx(float(result["mae"]))
    assert written["trainable_parameters"] == 4
    assert written["variables"]["net/w"] == {"dtype": "float32", "shape": [3, 1]}
    assert written["features"]["infer"]["features"]["x"]["shape"] == [None, 3]
    assert written["versions"]["tensorflow"] == tf.__version__
    page = (path / "assets.extra" / "model_card.md").read_text()
    assert "after 6 training steps; 4 trainable parameters" in page
    assert "| holdout/mae |" in page
    assert "| input | x | float32 | [None, 3] |" in page


def test_a_file_of_the_users_is_not_overwritten(
    linear: est.Estimator, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.md").write_text("mine")
    extra = {"model_card.md": str(tmp_path / "mine.md")}
    path = linear.export_saved_model(base, raw_receiver_fn, assets_extra=extra).decode()
    assert Path(path, "assets.extra", "model_card.md").read_text() == "mine"


def test_values_of_all_kinds_become_json() -> None:
    given = {
        "number": np.float32(0.5),
        "array": np.arange(2),
        "nan": float("nan"),
        "bytes": b"a",
        1: {"set": {3}},
        "function": len,
        "hparams": est.HParams(rate=0.1),
    }
    plain = card.plain(given)
    assert json.loads(json.dumps(plain, allow_nan=False)) == {
        "number": 0.5,
        "array": [0, 1],
        "nan": "nan",
        "bytes": "a",
        "1": {"set": [3]},
        "function": repr(len),
        "hparams": {"rate": 0.1},
    }
