"""What child processes run in the tests of this folder; imports little, so that they start fast."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

FILES = ("saved_model.pb", "variables/data", "assets/words.txt")
FILE_SIZE = 10_000


def fill(folder: str) -> None:
    """Write a stand-in for a model, file by file."""
    for name in FILES:
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as file:
            for _ in range(10):
                file.write("x" * (FILE_SIZE // 10))
                file.flush()


def write_versions_without_end(base: str) -> None:
    from estimand.export import versions

    while True:
        versions.write_version(base, fill)


def hold_until_killed(version: str, ready: str) -> None:
    from estimand.export.loaded.holding import Hold

    hold = Hold(version)
    Path(ready).touch()
    time.sleep(60)
    hold.release()


def export_without_end(model_dir: str, base: str) -> None:
    """Export the model of `model_fn` below, again and again, keeping three."""
    import estimand as est
    from estimand.export import versions

    estimator = est.Estimator(model_fn, model_dir, est.RunConfig(progress=False))
    while True:
        estimator.export_saved_model(base, receiver_fn)
        versions.collect_garbage(base, keep=3)


def train(model_dir: str) -> None:
    import tensorflow as tf

    import estimand as est

    config = est.RunConfig(progress=False, tf_random_seed=1)
    dataset = lambda: tf.data.Dataset.from_tensors(({"x": [[1.0, 2.0]]}, [[1.0]]))  # noqa: E731
    est.Estimator(model_fn, model_dir, config).train(dataset)


def saved_model_cli(arguments: list[str]) -> None:
    """TensorFlow's command of that name, whose module is where the command itself finds it."""
    command = importlib.import_module("tensorflow.python.tools.saved_model_cli")
    sys.argv = ["saved_model_cli", *arguments]
    command.main()


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    import tensorflow as tf

    import estimand as est

    y = features["x"] @ tf.compat.v1.get_variable("w", [2, 1])
    loss = None if labels is None else tf.reduce_mean(tf.square(y - labels))
    train_op = None
    if mode == est.ModeKeys.TRAIN:
        train_op = est.minimize(tf.compat.v1.train.GradientDescentOptimizer(0.1), loss)
    return est.EstimatorSpec(mode, predictions={"y": y}, loss=loss, train_op=train_op)


def receiver_fn() -> Any:
    import tensorflow as tf

    import estimand as est

    return est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 2])})()
