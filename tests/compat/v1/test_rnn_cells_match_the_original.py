"""Names, numbers and gradients equal those of tf.compat.v1.nn.rnn_cell 2.15."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimand.compat.v1 import rnn_cell
from tests.compat.rnn_programs import PROGRAMS, run


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    return json.loads((Path(__file__).parents[1] / "data" / "rnn_oracle.json").read_text())


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return {name: run(rnn_cell, program) for name, program in PROGRAMS.items()}


def assert_close(ours: Any, original: Any) -> None:
    assert len(ours) == len(original)
    for mine, theirs in zip(ours, original, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=3e-6)


def test_there_are_records_of_every_program(oracle: dict[str, Any]) -> None:
    assert set(oracle) == set(PROGRAMS)
    assert len(PROGRAMS) > 15


@pytest.mark.parametrize("name", PROGRAMS)
def test_variables_have_the_same_names_shapes_and_first_biases(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    for record in ("variables", "trainable", "biases"):
        assert ours[name][record] == oracle[name][record]


@pytest.mark.parametrize("name", PROGRAMS)
def test_outputs_and_states_are_the_same(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    assert_close(ours[name]["values"], oracle[name]["values"])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "dropout" not in name])
def test_gradients_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    assert_close(ours[name]["gradients"], oracle[name]["gradients"])
