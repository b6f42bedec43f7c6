"""Models and whole programs, for tests and for the child processes they start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1

# ------------------------------------------------------------------ a net with dropout

_WIDTHS = (32, 32, 1)


def noisy_waves() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    x = random.randn(300, 16).astype(np.float32)
    return x, 2 * x[:, :1] + np.sin(x[:, 1:2])


def unseeded_waves() -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices(noisy_waves())
    return dataset.shuffle(300).repeat().batch(32).prefetch(2)


def net_model_fn(features: tf.Tensor, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
    """Two hidden layers with dropout, trained by Adam."""
    out = features
    for index, width in enumerate(_WIDTHS):
        with v1.variable_scope(f"layer{index}"):
            kernel = v1.get_variable("kernel", [out.shape[1], width])
            bias = v1.get_variable("bias", [width], initializer=v1.zeros_initializer())
        out = out @ kernel + bias
        if width > 1:
            out = tf.nn.relu(out)
            if mode == est.ModeKeys.TRAIN:
                out = tf.nn.dropout(out, 0.3)
    loss = tf.reduce_mean(tf.square(out - labels))
    train_op = est.minimize(v1.train.AdamOptimizer(0.002), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_net(model_dir: str, max_steps: int, started: str | None = None, **config: Any) -> None:
    """Train; the file `started` appears with the first step."""

    class Started(est.SessionRunHook):
        cadence = est.every(steps=10**9)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if started is not None:
                Path(started).touch()

    run_config = est.RunConfig(model_dir, progress=False, **config)
    est.Estimator(net_model_fn, config=run_config).train(
        unseeded_waves, max_steps=max_steps, hooks=[Started()]
    )


# ------------------------------------------------------------------ a model that remembers


def remembering_model_fn(features: tf.Tensor, mode: str, params: Any) -> est.EstimatorSpec:
    """Writes the ids of every batch into the row of its step, of a variable `seen`.

    A checkpoint thus tells which batches went into it, and in which order.
    """
    step = v1.train.get_global_step()
    seen = v1.get_variable(
        "seen",
        [params["steps"], params["batch"]],
        tf.int64,
        initializer=v1.constant_initializer(-1),
        trainable=False,
    )
    with tf.control_dependencies([v1.scatter_update(seen, step, features)]):
        train_op = step.assign_add(1)
    loss = tf.reduce_mean(tf.cast(features, tf.float32))
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def remembering(
    model_dir: str | Path, *, steps: int = 100, batch: int = 4, **config: Any
) -> est.Estimator:
    run_config = est.RunConfig(str(model_dir), progress=False, **config)
    params = {"steps": steps, "batch": batch}
    return est.Estimator(remembering_model_fn, config=run_config, params=params)


def seen_by(model_dir: str | Path) -> np.ndarray:
    """The batches that the newest checkpoint has seen, one per row."""
    path = tf.train.latest_checkpoint(str(model_dir))
    reader = tf.train.load_checkpoint(path)
    return reader.get_tensor("seen")[: reader.get_tensor("global_step")]


class CrashAt(est.SessionRunHook):
    """Ends training the hard way: nothing is saved after `step`."""

    def __init__(self, step: int) -> None:
        self._step = step

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs("global_step:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results + 1 >= self._step:  # fetched before the step moved it
            raise Crashed(f"at step {self._step}")


class Crashed(Exception):
    pass


def weights(model_dir: str | Path) -> dict[str, np.ndarray]:
    """Everything in the newest checkpoint."""
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


# ------------------------------------------------------------------ ids without end

IDS, BATCH = 100, 4
ENDLESS = 100_000


def shuffled_ids() -> tf.data.Dataset:
    return tf.data.Dataset.range(IDS).shuffle(IDS).repeat().batch(BATCH)


def train_endlessly(model_dir: str, hooks: Sequence[Any] = (), **config: Any) -> None:
    tf.get_logger().setLevel("INFO")
    estimator = remembering(model_dir, steps=ENDLESS, batch=BATCH, **config)
    estimator.train(shuffled_ids, max_steps=ENDLESS, hooks=hooks)


def assert_every_epoch_is_whole(seen: np.ndarray) -> None:
    """Every id once per epoch, whatever happened in between; the last epoch may be unfinished."""
    whole = seen.size // IDS * IDS
    epochs = seen.ravel()[:whole].reshape(-1, IDS)
    assert (np.sort(epochs, axis=1) == np.arange(IDS)).all()
    rest = seen.ravel()[whole:]
    assert len(set(rest)) == len(rest)
