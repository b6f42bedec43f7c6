"""Names, numbers, gradients, penalties and updates equal those of tf.compat.v1.layers 2.15."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from estimand.compat.v1 import layers
from tests.compat.layer_programs import PROGRAMS, SPATIAL_PROGRAMS, batches, run, signature

ALL_PROGRAMS = PROGRAMS | SPATIAL_PROGRAMS


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return {name: run(layers, program) for name, program in ALL_PROGRAMS.items()}


def assert_close(ours: Any, original: Any) -> None:
    assert len(ours) == len(original)
    for mine, theirs in zip(ours, original, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)  # sums by other processors


def test_there_are_records_of_every_program(oracle: dict[str, Any]) -> None:
    assert set(oracle) == {*ALL_PROGRAMS, "signatures"}
    assert len(ALL_PROGRAMS) > 50


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_variables_have_the_same_names_shapes_and_order(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    assert ours[name]["variables"] == oracle[name]["variables"]


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_operations_have_the_same_names(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    assert ours[name]["operations"] == oracle[name]["operations"]
    assert ours[name]["output"] == oracle[name]["output"]
    assert ours[name]["output_shape"] == oracle[name]["output_shape"]


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_outputs_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    assert_close(ours[name]["values"], oracle[name]["values"])


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_gradients_are_the_same(name: str, ours: dict[str, Any], oracle: dict[str, Any]) -> None:
    assert_close(ours[name]["gradients"], oracle[name]["gradients"])


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_regularization_losses_are_the_same(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    assert_close(ours[name]["penalties"], oracle[name]["penalties"])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "batch_norm" in name])
def test_three_steps_of_the_update_ops_move_the_averages_equally(
    name: str, ours: dict[str, Any], oracle: dict[str, Any]
) -> None:
    assert ours[name]["updates"] == oracle[name]["updates"]
    assert len(ours[name]["moving"]) == len(oracle[name]["moving"])
    for mine, theirs in zip(ours[name]["moving"], oracle[name]["moving"], strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("name", SPATIAL_PROGRAMS)
def test_channels_first_gives_the_same_transposed(name: str, oracle: dict[str, Any]) -> None:
    program = SPATIAL_PROGRAMS[name]
    inputs = [np.moveaxis(batch, -1, 1) for batch in batches(program.input_shape)]
    record = run(layers, program, inputs, data_format="channels_first")
    assert record["variables"] == oracle[name]["variables"]
    assert_close(np.moveaxis(record["values"], 1, -1), oracle[name]["values"])
    outputs = oracle[name]["output_shape"]
    assert record["output_shape"] == [outputs[0], outputs[-1], *outputs[1:-1]]


@pytest.mark.parametrize("name", [n for n in dir(layers) if n[0].islower() and n in layers.__all__])
def test_functions_take_the_same_arguments_with_the_same_defaults(
    name: str, oracle: dict[str, Any]
) -> None:
    assert as_lists(signature(getattr(layers, name))) == oracle["signatures"][name]


@pytest.mark.parametrize("name", [n for n in layers.__all__ if n[0].isupper() and "Error" not in n])
def test_classes_take_the_same_arguments_in_the_same_order(
    name: str, oracle: dict[str, Any]
) -> None:
    mine = [argument for argument, _ in signature(getattr(layers, name))]
    theirs = [argument for argument, _ in oracle["signatures"][name]]
    # InputSpec got two more arguments in Keras that tf.layers never had.
    assert mine == (theirs[:6] if name == "InputSpec" else theirs)


def test_no_name_of_the_original_is_missing(oracle: dict[str, Any]) -> None:
    assert set(oracle["signatures"]) <= set(layers.__all__)


def as_lists(entries: list[list[Any]]) -> list[list[Any]]:
    return [[name, list(d) if isinstance(d, tuple) else d] for name, d in entries]
