"""Every column gives the numbers, gradients and variable names of TensorFlow 2.15's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.features import fast_path
from tests.features import column_cases as cases

v1 = tf.compat.v1
fc = est.feature_column
STORED = np.load(Path(__file__).parent / "fixtures" / "columns.npz")


def stored(kind: str, name: str) -> dict[str, np.ndarray]:
    found = {k.split("|")[2]: STORED[k] for k in STORED if k.split("|")[:2] == [kind, name]}
    assert found, f"no fixture {kind}|{name}: run make_fixtures.py"
    return found


def names(kind: str) -> list[str]:
    return sorted({k.split("|")[1] for k in STORED if k.split("|")[0] == kind})


def run(build: Callable[[], Any]) -> dict[str, np.ndarray]:
    """What `make_fixtures.py` does, with the columns under test."""
    with tf.Graph().as_default(), v1.Session() as session:
        output = build()
        variables = v1.global_variables()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for variable in variables:
            value = cases.fixed_value(variable.name, variable.shape.as_list())
            session.run(variable.assign(value))
        found = {"output": session.run(output)}
        factors = cases.fixed_factors(found["output"].shape)
        gradients = tf.gradients(tf.reduce_sum(output * factors), variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            found[f"gradient:{variable.name}"] = session.run(tf.convert_to_tensor(gradient))
        return found


def compare(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        np.testing.assert_allclose(found[part], value, rtol=1e-5, atol=1e-6, err_msg=part)


@pytest.fixture(params=[True, False], ids=["dense_ids", "plain"])
def either_path(request: pytest.FixtureRequest) -> Iterator[bool]:
    with fast_path(request.param):
        yield request.param


@pytest.mark.sample(3)
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", names("dense_input"))
def test_input_layer_of_dense_features(name: str, rank: int, either_path: bool) -> None:
    found = run(
        lambda: est.feature_column.input_layer(
            cases.dense_features(rank), cases.dense_input_columns(fc)[name]
        )
    )
    compare(found, stored("dense_input", name))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", names("sparse_input"))
def test_input_layer_of_sparse_features(name: str, either_path: bool) -> None:
    found = run(
        lambda: fc.input_layer(cases.sparse_features(), cases.sparse_input_columns(fc)[name])
    )
    compare(found, stored("sparse_input", name))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", names("dense_linear"))
def test_linear_model_of_dense_features(name: str, either_path: bool) -> None:
    found = run(
        lambda: fc.linear_model(
            cases.dense_features(1), cases.dense_linear_columns(fc)[name], units=2
        )
    )
    compare(found, stored("dense_linear", name))


@pytest.mark.sample(5)
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("name", names("sparse_linear_sum"))
def test_linear_model_of_sparse_features(name: str, combiner: str, either_path: bool) -> None:
    found = run(
        lambda: fc.linear_model(
            cases.sparse_features(),
            cases.sparse_linear_columns(fc)[name],
            units=2,
            sparse_combiner=combiner,
        )
    )
    compare(found, stored(f"sparse_linear_{combiner}", name))


@pytest.mark.parametrize("name", names("sequence"))
def test_sequence_input_layer(name: str) -> None:
    lengths: list[Any] = []

    def build() -> Any:
        columns = cases.sequence_columns(fc)[name]
        output, length = fc.sequence_input_layer(cases.sparse_features(), columns)
        lengths.append(length)
        with tf.control_dependencies([length]):
            return tf.concat([tf.reshape(output, [5, -1]), tf.cast(length, tf.float32)[:, None]], 1)

    found = run(build)["output"]
    expected = stored("sequence", name)
    np.testing.assert_array_equal(found[:, -1], expected["lengths"])
    np.testing.assert_allclose(
        found[:, :-1].reshape(expected["output"].shape), expected["output"], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["together", "embedding_cross_columns", "shared"])
def test_columns_made_by_tensorflow_itself_are_taken_too(name: str) -> None:
    def build() -> Any:
        columns = cases.dense_input_columns(v1.feature_column)[name]
        return fc.input_layer(cases.dense_features(1), columns)

    compare(run(build), stored("dense_input", name))


def test_ragged_features_are_taken_as_sparse_ones() -> None:
    def build() -> Any:
        features = {k: tf.RaggedTensor.from_row_lengths(*cases.SEVERAL[k]) for k in ("s", "t")}
        return fc.input_layer(features, cases.sparse_input_columns(fc)["embedding_hash_mean"])

    compare(run(build), stored("sparse_input", "embedding_hash_mean"))
