"""Models of middle size, the same in every framework, and everybody who trains them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from environments import PROJECT, TORCH, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn

_LEARNING_RATE = 1e-3
_STEPS_PER_CALL = 100
_STEPS_PER_LOOK = 25
_MEASURED_SECONDS = 1.2  # a step takes 5 to 50 ms


@dataclass(frozen=True)
class Model:
    """Data, and what makes the network: of `keras` (2 or 3), and of `torch`, with its inputs."""

    title: str
    examples: Callable[[], tuple[np.ndarray, np.ndarray]]
    batch: int
    keras: Callable[[Any], Any]
    torch: Callable[[Any], Any]
    torch_inputs: Callable[[np.ndarray], np.ndarray] = lambda x: x
    aim: float = 1.2  # times tf.estimator

    def dataset(self, tf: Any, *, named: bool = True) -> Any:
        x, y = self.examples()
        data = tf.data.Dataset.from_tensor_slices(({"x": x} if named else x, y))
        return data.shuffle(1000).repeat().batch(self.batch, drop_remainder=True).prefetch(2)

    def model_fn(self, tf: Any, keras: Any, estimator_api: Any, minimize: Any) -> Any:
        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            logits = self.keras(keras)(features["x"], training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
            return estimator_api.EstimatorSpec(mode, loss=loss, train_op=minimize(loss))

        return model_fn

    def estimand(self, turns: Turns, *, v1: bool) -> None:
        import keras
        import tensorflow as tf

        import estimand as est

        def minimize(loss: Any) -> Any:
            if v1:
                return _v1_adam(tf, loss)
            return est.minimize(keras.optimizers.Adam(_LEARNING_RATE), loss)

        turns.measured_seconds = _MEASURED_SECONDS
        model_fn = self.model_fn(tf, keras, est, minimize)
        estimator = est.Estimator(model_fn, model_dir=tempfile.mkdtemp())
        hooks = [dnn.estimand_counter(turns, _STEPS_PER_LOOK)]
        estimator.train(lambda: self.dataset(tf), hooks=hooks)

    def upstream(self, turns: Turns) -> None:
        import tensorflow as tf

        turns.measured_seconds = _MEASURED_SECONDS
        model_fn = self.model_fn(tf, tf.keras, tf.estimator, lambda loss: _v1_adam(tf, loss))
        estimator = tf.estimator.Estimator(model_fn, model_dir=tempfile.mkdtemp())
        estimator.train(lambda: self.dataset(tf), hooks=[dnn.upstream_counter(turns)])

    def keras_fit(self, turns: Turns) -> None:
        import keras
        import tensorflow as tf

        turns.measured_seconds = _MEASURED_SECONDS
        model = self.keras(keras)
        model.compile(
            keras.optimizers.Adam(_LEARNING_RATE),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=_STEPS_PER_CALL,
        )
        data = self.dataset(tf, named=False)
        model.fit(data, steps_per_epoch=10**9, verbose=0, callbacks=[dnn.keras_counter(turns)])

    def torch_loop(self, turns: Turns, *, compiled: bool) -> None:
        import torch

        turns.measured_seconds = _MEASURED_SECONDS
        torch.set_num_threads(2)
        model = self.torch(torch)
        # The fused kernel is the faster one of its three ways to run Adam.
        optimizer = torch.optim.Adam(model.parameters(), _LEARNING_RATE, fused=True)
        run = torch.compile(model) if compiled else model
        x, y = self.examples()
        inputs, labels = torch.from_numpy(self.torch_inputs(x)), torch.from_numpy(y).long()
        while True:
            chosen = torch.randint(0, len(labels), (self.batch,))
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(run(inputs[chosen]), labels[chosen]).backward()
            optimizer.step()
            turns.tick()

    def workload(self) -> Workload:
        """Everybody who trains it, compared with tf.estimator."""
        others = ["Keras fit, 100 steps per call", "PyTorch loop"]
        ours = ["Estimand, v1 Adam", "Estimand, Keras Adam"]
        return Workload(
            title=f"Steps per second: {self.title}",
            contestants=[
                Contestant(ours[0], PROJECT, lambda turns: self.estimand(turns, v1=True)),
                Contestant(ours[1], PROJECT, lambda turns: self.estimand(turns, v1=False)),
                Contestant("tf.estimator", UPSTREAM, self.upstream),
                Contestant(others[0], PROJECT, self.keras_fit),
                Contestant(others[1], TORCH, lambda t: self.torch_loop(t, compiled=False)),
                Contestant(
                    "PyTorch loop, compiled",
                    TORCH,
                    lambda t: self.torch_loop(t, compiled=True),
                    in_quick=False,
                ),
            ],
            baseline=["tf.estimator"],
            targets=[
                Target(name, against, at_least=least)
                for name in ours
                for against, least in ((["tf.estimator"], self.aim), (others, 1.0))
            ],
            rounds=10,
            quick_rounds=3,
        )


def _v1_adam(tf: Any, loss: Any) -> Any:
    v1 = tf.compat.v1
    step = v1.train.get_global_step()
    return v1.train.AdamOptimizer(_LEARNING_RATE).minimize(loss, step)


def tokens(rows: int, length: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.integers(0, words, (rows, length), dtype=np.int32)
    return x, random.integers(0, 2, rows, dtype=np.int32)
