"""Numbers, keys, names and signatures equal those of the heads of tf.estimator 2.15."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import estimand as est
from tests.heads.head_cases import CASES, names_of, numbers_of, signatures_of


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return {name: numbers_of(est, case) for name, case in CASES.items()}


def test_there_are_records_of_every_case(oracle: dict[str, Any]) -> None:
    assert set(oracle) == {*CASES, "signatures"}
    assert len(CASES) > 20


@pytest.mark.parametrize("name", CASES)
def test_losses_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    for key in ("loss", "regularized"):
        np.testing.assert_allclose(ours[name][key], oracle[name][key], rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_metrics_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    assert ours[name]["metrics"] == pytest.approx(oracle[name]["metrics"], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    expected = oracle[name]["predictions"]
    assert set(ours[name]["predictions"]) == set(expected)
    for key, value in ours[name]["predictions"].items():
        if np.asarray(value).dtype.kind == "U":
            assert value == expected[key]
        else:
            np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_keys_signatures_and_operations_have_the_same_names(
    name: str, oracle: dict[str, Any]
) -> None:
    names, expected = names_of(est, CASES[name]), oracle[name]["names"]
    for kind in ("outputs", "metrics", "summaries"):
        assert names[kind] == expected[kind]
    # The logits are the caller's; string classes of a vocabulary come from no table here.
    made_by_head = {k: t for k, t in expected["tensors"].items() if "/predictions" in t}
    made_by_head = {k: t for k, t in made_by_head.items() if "hash_table" not in t}
    assert {k: names["tensors"][k] for k in made_by_head} == made_by_head


def test_constructors_and_methods_take_the_same_arguments(oracle: dict[str, Any]) -> None:
    assert signatures_of(est) == oracle["signatures"]
