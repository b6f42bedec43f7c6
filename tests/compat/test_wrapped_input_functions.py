"""Input functions of programs that call `numpy_input_fn(...)()` and change what it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed
from estimand.inputs.contract import call_input_fn

NUMBERS = np.arange(6, dtype=np.float32)


def batches(input_fn: Any) -> list[Any]:
    given = call_input_fn(input_fn, mode="train", params=None, config=None)
    return [
        tf.nest.map_structure(lambda t: t.numpy().tolist(), given.unpack(e)) for e in given.dataset
    ]


def doubled(ready_made: Any) -> Any:
    def input_fn() -> Any:
        features, labels = ready_made()
        return {"x": features["x"] * 2}, tf.one_hot(labels, 2)

    return input_fn


@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_a_wrapper_gets_tensors_of_one_batch_after_the_other(kind: str) -> None:
    with installed():
        labels = np.array([0, 1, 0, 1, 0, 1])
        if kind == "numpy":
            read = est.inputs.numpy_input_fn({"x": NUMBERS}, labels, 3, shuffle=False)
        else:
            frame = pd.DataFrame({"x": NUMBERS})
            read = est.inputs.pandas_input_fn(frame, pd.Series(labels), 3, shuffle=False)
        first, second = batches(doubled(read))
    assert first == ({"x": [0.0, 2.0, 4.0]}, [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert second[0] == {"x": [6.0, 8.0, 10.0]}


def test_a_plain_lambda_around_it_changes_nothing() -> None:
    read = est.inputs.numpy_input_fn({"x": NUMBERS}, NUMBERS, 4, shuffle=False)
    alone = batches(read)
    with installed():
        assert batches(lambda: read()) == batches(read) == alone


def test_without_old_code_it_is_a_dataset_to_go_on_with() -> None:
    read = est.inputs.numpy_input_fn(NUMBERS, NUMBERS, batch_size=3, shuffle=False)
    more = batches(lambda: read().map(lambda x, y: (x + 1, y)))
    assert more[0] == ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])


def test_training_with_a_wrapper_sees_batch_after_batch(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        del labels
        v1 = tf.compat.v1
        total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(features["x"])
        train_op = tf.group(total.assign_add(loss), v1.train.get_global_step().assign_add(1))
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with installed():
        read = est.inputs.numpy_input_fn(
            {"x": NUMBERS}, np.zeros(6, np.int64), 2, num_epochs=None, shuffle=False
        )
        estimator = est.Estimator(model_fn, str(tmp_path))
        estimator.train(doubled(read), max_steps=4)
    assert float(estimator.get_variable_value("total")) == 1.0 + 5.0 + 9.0 + 1.0
