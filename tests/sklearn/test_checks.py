"""scikit-learn's own checks of what an estimator has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import estimand as est

# A check that fails, and why.
WHY_NOT = {
    "check_sample_weight_equivalence_on_dense_data": "training draws rows at random: a row of "
    "weight 2 is not drawn like two rows, though the loss they aim at is the same",
    "check_methods_sample_order_invariance": "it allows for differences of 1e-7, and the last bit "
    "of a float32 may depend on the place of a row in its batch",
    "check_methods_subset_invariance": "the same, of the size of the batch",
}
MODELS = [
    kind(max_steps=100, batch_size=64, random_state=0)
    for kind in (est.sklearn.Classifier, est.sklearn.Regressor)
]


@pytest.mark.slow
@pytest.mark.sample(16)
@parametrize_with_checks(MODELS, expected_failed_checks=lambda _: WHY_NOT)
def test_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
