"""Random masks: another one at each step, and the same ones again in a resumed run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import layers as v1_layers
from tests.estimator.conftest import run_config, v1


def keras_dropout(x: tf.Tensor, training: bool) -> tf.Tensor:
    import keras

    return keras.layers.Dropout(0.5)(x, training=training)


def nn_dropout(x: tf.Tensor, training: bool) -> tf.Tensor:
    return tf.nn.dropout(x, rate=0.5) if training else x


def layers_dropout(x: tf.Tensor, training: bool) -> tf.Tensor:
    return v1_layers.dropout(x, rate=0.5, training=training)


KINDS = {
    "keras.layers.Dropout": keras_dropout,
    "tf.nn.dropout": nn_dropout,
    "layers.dropout": layers_dropout,
}


class Masks(est.SessionRunHook):
    """Keeps what was dropped at each step."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs("masked:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(np.ones((8, 16), np.float32)).repeat()


def estimator(model_dir: str, dropout: Callable[..., Any], **config: Any) -> est.Estimator:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        masked = tf.identity(dropout(features, mode == est.ModeKeys.TRAIN), name="masked")
        scale = v1.get_variable("scale", [], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(masked * scale)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        return est.EstimatorSpec(
            mode, loss=loss, train_op=est.minimize(optimizer, loss), predictions=masked
        )

    return est.Estimator(model_fn, model_dir, run_config(**config))


def masks_of(model: est.Estimator, steps: int) -> list[np.ndarray]:
    hook = Masks()
    model.train(input_fn, steps=steps, hooks=[hook])
    return hook.seen


@pytest.mark.parametrize("kind", KINDS)
def test_masks_differ_from_step_to_step_and_return_after_a_resume(
    tmp_path: Path, kind: str
) -> None:
    def make(name: str) -> est.Estimator:
        return estimator(str(tmp_path / name), KINDS[kind])

    whole = masks_of(make("whole"), 6)
    assert len({mask.tobytes() for mask in whole}) == 6
    assert all(set(np.unique(mask)) == {0.0, 2.0} for mask in whole)
    in_parts = [*masks_of(make("parts"), 3), *masks_of(make("parts"), 3)]
    np.testing.assert_array_equal(in_parts, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_seed_the_model_dir_keeps_the_one_that_was_drawn(
    tmp_path: Path, kind: str
) -> None:
    def make(name: str) -> est.Estimator:
        return estimator(str(tmp_path / name), KINDS[kind], tf_random_seed=None)

    masks_of(make("one"), 2)
    shutil.copytree(tmp_path / "one", tmp_path / "twin")
    np.testing.assert_array_equal(masks_of(make("one"), 2), masks_of(make("twin"), 2))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_run_in_one_call_draw_what_single_steps_draw(tmp_path: Path, kind: str) -> None:
    single, many = (estimator(str(tmp_path / n), KINDS[kind]) for n in ("single", "many"))
    masks_of(single, 6)  # a hook that looks at every step
    many.train(input_fn, steps=6)
    assert single.get_variable_value("scale") == many.get_variable_value("scale")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_dropped_in_prediction(model_dir: str, kind: str) -> None:
    row = next(estimator(model_dir, KINDS[kind]).predict(input_fn, untrained=True))
    np.testing.assert_array_equal(row, np.ones(16))


def test_two_dropouts_of_one_step_differ(model_dir: str, warnings_logged: Any) -> None:
    def both(x: tf.Tensor, training: bool) -> tf.Tensor:
        return tf.concat([nn_dropout(x, training), nn_dropout(x, training)], axis=1)

    for mask in masks_of(estimator(model_dir, both), 2):
        assert (mask[:, :16] != mask[:, 16:]).any()
    assert not warnings_logged("will not be the same again")


@tf.function
def _dropped(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.dropout(x, rate=0.5)


def dropout_in_a_function_used_before(x: tf.Tensor, training: bool) -> tf.Tensor:
    return _dropped(x)


def truncated_by_parameters(x: tf.Tensor, training: bool) -> tf.Tensor:
    return x + tf.raw_ops.ParameterizedTruncatedNormal(
        shape=tf.shape(x), means=0.0, stdevs=1.0, minvals=-1.0, maxvals=1.0
    )


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (dropout_in_a_function_used_before, "RandomUniform ("),
        (truncated_by_parameters, "ParameterizedTruncatedNormal ("),
    ],
)
def test_numbers_that_a_resumed_run_will_not_repeat_are_told(
    model_dir: str, warnings_logged: Any, draw: Callable[..., Any], named: str
) -> None:
    draw(next(iter(input_fn())), training=True)
    estimator(model_dir, draw).train(input_fn, steps=1)
    assert warnings_logged(named)
