"""model_dirs of `tf.estimator` 2.15 continue here: metrics, predictions, further steps."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.canned import cases
from tests.canned.conftest import Continued

ALIKE = [name for name, case in cases.CASES.items() if case.trained_alike]
OTHERS = [name for name in cases.CASES if name not in ALIKE]


@pytest.mark.sample(6)
@pytest.mark.parametrize("continued", ALIKE, indirect=True)
def test_evaluates_predicts_and_trains_on_like_the_original(continued: Continued) -> None:
    # What was in parts is written as a whole, under the name of the first part.
    before = {
        name: shape
        for name, shape in tf.train.list_variables(continued.directory)
        if not re.search(r"/(t|part)_[12]/", name)
    }
    compare(continued, "evaluate", continued.evaluate(), relative=1e-6)
    compare_predictions(continued)
    continued.train()
    compare(continued, "evaluate_after_more", continued.evaluate(), relative=2e-4)
    assert dict(tf.train.list_variables(continued.directory)) == before


@pytest.mark.parametrize("continued", OTHERS, indirect=True)
def test_shared_embeddings_are_trained_though_the_original_did_not(continued: Continued) -> None:
    compare(continued, "evaluate", continued.evaluate(), relative=1e-6)
    compare_predictions(continued)
    name = "ids_other_ids_shared_embedding"
    before = continued.estimator.get_variable_value(name)
    continued.train()
    assert np.abs(continued.estimator.get_variable_value(name) - before).min() > 0
    # The original's checkpoint had no slot for it: it began as in a new model.
    slot = continued.estimator.get_variable_value(f"training/Adagrad/{name}/accumulator")
    assert slot.shape == before.shape
    assert slot.min() > 0.1


def compare_predictions(continued: Continued) -> None:
    rows = [cases.plain(row) for row in continued.estimator.predict(continued.case.input_fn)]
    assert sorted(rows[0]) == continued.expected["prediction_keys"]
    assert continued.predictions
    for key, values in continued.predictions.items():
        np.testing.assert_allclose([row[key] for row in rows], values, rtol=1e-4, atol=1e-5)


def compare(continued: Continued, key: str, got: dict[str, float], *, relative: float) -> None:
    expected = continued.expected[key]
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert float(got[name]) == pytest.approx(value, rel=relative, abs=1e-6), name
