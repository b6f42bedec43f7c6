"""model_dirs that `tf.estimator` 2.15 trained continue here: metrics, predictions, further steps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.canned import cases
from tests.canned.conftest import FIXTURES, Continued

# v1 computed areas under curves by another rule than Keras.
OTHER_RULE_IN_V1 = {"auc", "auc_precision_recall"}


def test_every_case_has_a_fixture() -> None:
    folders = {path.parent.name for path in FIXTURES.glob("*/expected.json")}
    assert folders == set(cases.CASES)


@pytest.mark.parametrize("continued", cases.CASES, indirect=True)
def test_continues(continued: Continued, request: pytest.FixtureRequest) -> None:
    before = dict(tf.train.list_variables(continued.directory))
    compare(continued, "evaluate", continued.evaluate(), absolute=1e-5, relative=1e-6)
    rows = list(continued.estimator.predict(continued.case.input_fn))
    assert sorted(rows[0]) == continued.expected["prediction_keys"]
    assert continued.predictions
    for key, values in continued.predictions.items():
        np.testing.assert_allclose([row[key] for row in rows], values, rtol=1e-4, atol=1e-5)
    continued.train()
    after = continued.evaluate()
    compare(continued, "evaluate_after_more", after, absolute=1e-5, relative=2e-4)
    assert dict(tf.train.list_variables(continued.directory)) == before


def compare(
    continued: Continued, key: str, got: dict[str, float], *, absolute: float, relative: float
) -> None:
    expected = continued.expected[key]
    assert got.keys() == expected.keys()
    v1 = type(continued.estimator).__module__.startswith("estimand.compat")
    names = expected.keys() - (OTHER_RULE_IN_V1 if v1 else set())
    for name in names:
        wanted = pytest.approx(expected[name], rel=relative, abs=absolute)
        assert float(got[name]) == wanted, name
