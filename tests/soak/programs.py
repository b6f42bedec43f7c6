"""Small programs of many kinds, for processes that are killed while they run them.

python -m tests.soak.programs WHAT FOLDER SETTINGS, where settings are JSON. Everything that a
program reads and writes is in its folder.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
ROWS, WIDTH = 96, 6
Settings = dict[str, Any]


# ------------------------------------------------------------------ data and inputs


def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(3)
    x = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return x, (x.sum(axis=1) > 0).astype(np.int64)


def write_files(data: Path) -> None:
    """The same rows as records and as text; run once, by nobody who is killed."""
    data.mkdir()
    x, y = rows()
    for part in range(3):
        with tf.io.TFRecordWriter(str(data / f"part-{part}.tfrecord")) as writer:
            for i in range(part, ROWS, 3):
                writer.write(np.append(x[i], np.float32(y[i])).tobytes())
    lines = [",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True)]
    header = ",".join([*(f"x{i}" for i in range(WIDTH)), "y"])
    (data / "rows.csv").write_text("\n".join([header, *lines]) + "\n")


def slices(given: Settings, data: Path) -> tf.data.Dataset:
    x, y = rows()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).shuffle(40).repeat()


def seeded(given: Settings, data: Path) -> tf.data.Dataset:
    x, y = rows()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).shuffle(96, seed=5).repeat()


def records(given: Settings, data: Path) -> tf.data.Dataset:
    def parse(record: tf.Tensor) -> Any:
        row = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [WIDTH + 1])
        return {"x": row[:WIDTH]}, tf.cast(row[WIDTH], tf.int64)

    files = tf.data.Dataset.list_files(str(data / "part-*"))
    read = files.interleave(tf.data.TFRecordDataset, cycle_length=2, block_length=4)
    return read.shuffle(20).repeat().map(parse, num_parallel_calls=2)


def generator(given: Settings, data: Path) -> tf.data.Dataset:
    x, y = rows()

    def give() -> Iterator[Any]:
        while True:
            yield from (({"x": a}, b) for a, b in zip(x, y, strict=True))

    signature = ({"x": tf.TensorSpec([WIDTH], tf.float32)}, tf.TensorSpec([], tf.int64))
    return tf.data.Dataset.from_generator(give, output_signature=signature)


def python_function(given: Settings, data: Path) -> tf.data.Dataset:
    def change(features: Any, label: tf.Tensor) -> Any:
        x = tf.py_function(lambda value: value * 2, [features["x"]], tf.float32)
        return {"x": tf.ensure_shape(x, [WIDTH])}, label

    return seeded(given, data).map(change)


ROW_INPUTS: dict[str, Callable[[Settings, Path], tf.data.Dataset]] = {
    "slices": slices,
    "seeded": seeded,
    "records": records,
    "generator": generator,
    "python_function": python_function,
}


def numpy_batches(given: Settings, data: Path) -> Any:
    x, y = rows()
    return est.inputs.numpy_input_fn({"x": x}, y, given["batch"], num_epochs=None, shuffle=True)()


def csv_batches(given: Settings, data: Path) -> Any:
    read = est.inputs.csv_input_fn(str(data / "rows.csv"), given["batch"], label_name="y")

    def together(columns: dict[str, tf.Tensor], label: tf.Tensor) -> Any:
        return {"x": tf.stack([columns[f"x{i}"] for i in range(WIDTH)], axis=1)}, label

    return read(mode="train").map(together)


def python_batches(given: Settings, data: Path) -> Iterator[Any]:
    x, y = rows()
    size, start = given["batch"], 0
    while True:
        picked = np.arange(start, start + size) % ROWS
        yield {"x": x[picked]}, y[picked]
        start += size


BATCH_INPUTS: dict[str, Callable[[Settings, Path], Any]] = {
    "numpy": numpy_batches,
    "csv": csv_batches,
    "python_batches": python_batches,
}
INPUTS = (*ROW_INPUTS, *BATCH_INPUTS)


def input_fn_of(given: Settings, data: Path) -> Callable[[], Any]:
    def input_fn() -> Any:
        if given["input"] in BATCH_INPUTS:
            return BATCH_INPUTS[given["input"]](given, data)
        dataset = ROW_INPUTS[given["input"]](given, data)
        return dataset.batch(given["batch"], drop_remainder=given["drop_remainder"]).prefetch(2)

    return input_fn


def eval_input_fn() -> tf.data.Dataset:
    x, y = rows()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(32)


# ------------------------------------------------------------------ models


def v1_logits(x: tf.Tensor, mode: str) -> tf.Tensor:
    for index, width in enumerate((5, 2)):
        with v1.variable_scope(f"layer{index}"):
            kernel = v1.get_variable("kernel", [x.shape[1], width])
            bias = v1.get_variable("bias", [width], initializer=v1.zeros_initializer())
        x = x @ kernel + bias
        if width > 2:
            x = tf.nn.relu(x)
            v1.summary.histogram("hidden", x)
            x = tf.nn.dropout(x, 0.3) if mode == est.ModeKeys.TRAIN else x
    return x


def keras_logits(x: tf.Tensor, mode: str) -> tf.Tensor:
    import keras

    training = mode == est.ModeKeys.TRAIN
    x = keras.layers.Dense(5, activation="relu")(x)
    x = keras.layers.BatchNormalization()(x, training=training)
    x = keras.layers.Dropout(0.3)(x, training=training)
    return keras.layers.Dense(2)(x)


def model_fn_of(logits_fn: Callable[..., tf.Tensor], optimizer: Callable[[], Any]) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        logits = logits_fn(features["x"], mode)
        classes = tf.argmax(logits, axis=1)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"class": classes})
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
        v1.summary.scalar("accuracy", metrics["accuracy"][1])
        train_op = None
        if mode == est.ModeKeys.TRAIN:
            train_op = est.minimize(optimizer(), loss)
        return est.EstimatorSpec(mode, None, loss, train_op, metrics)

    return model_fn


def of_keras(name: str, *args: Any, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import keras

        return getattr(keras.optimizers, name)(*args, **settings)

    return make


def columns() -> list[Any]:
    return [est.feature_column.numeric_column("x", WIDTH)]


def linear(config: est.RunConfig) -> est.Estimator:
    return est.LinearClassifier(columns(), config=config, optimizer="Ftrl")


def dnn(config: est.RunConfig) -> est.Estimator:
    return est.DNNClassifier([5], columns(), config=config, dropout=0.3, optimizer="Adagrad")


def with_model_fn(logits_fn: Any, optimizer: Callable[[], Any]) -> Any:
    return lambda config: est.Estimator(model_fn_of(logits_fn, optimizer), config=config)


MODELS: dict[str, Callable[[est.RunConfig], est.Estimator]] = {
    "v1 adam": with_model_fn(v1_logits, lambda: v1.train.AdamOptimizer(0.01)),
    "v1 momentum": with_model_fn(v1_logits, lambda: v1.train.MomentumOptimizer(0.01, 0.9)),
    "keras adam": with_model_fn(keras_logits, of_keras("Adam", 0.01)),
    "keras sgd": with_model_fn(keras_logits, of_keras("SGD", 0.01, momentum=0.9)),
    "mixed": with_model_fn(keras_logits, lambda: v1.train.AdagradOptimizer(0.05)),
    "linear": linear,
    "dnn": dnn,
}


# ------------------------------------------------------------------ what is run


class Started(est.SessionRunHook):
    """Makes a file when the first step is done."""

    cadence = est.every(steps=10**9)

    def __init__(self, file: Path) -> None:
        self._file = file

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._file.touch()


class Waits(est.CheckpointSaverListener):
    """Reads files, so that training waits until they are written."""

    def after_save(self, session: Any, global_step_value: int) -> None:
        del session, global_step_value


def estimator_of(given: Settings, model_dir: Path) -> est.Estimator:
    config = est.RunConfig(str(model_dir), progress=False, **given["config"])
    return MODELS[given["model"]](config)


def train(given: Settings, folder: Path, model_dir: Path) -> None:
    listeners = [Waits()] if given["synchronous"] else []
    estimator_of(given, model_dir).train(
        input_fn_of(given, folder / "data"),
        max_steps=given["steps"],
        hooks=[Started(model_dir.with_suffix(".started"))],
        saving_listeners=listeners,
    )


def receiver_fn() -> Any:
    made = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, WIDTH])})
    return made()


def train_and_evaluate(given: Settings, folder: Path, model_dir: Path) -> None:
    best = est.BestExporter("best", receiver_fn, exports_to_keep=2)
    last = est.LatestExporter("latest", receiver_fn, exports_to_keep=2)
    exporters = {"best": best, "latest": last, "final": est.FinalExporter("final", receiver_fn)}
    metrics, _ = est.train_and_evaluate(
        estimator_of(given, model_dir),
        est.TrainSpec(
            input_fn_of(given, folder / "data"),
            max_steps=given["steps"],
            hooks=[Started(model_dir.with_suffix(".started"))],
        ),
        est.EvalSpec(
            eval_input_fn,
            steps=None,
            exporters=[exporters[name] for name in given["exporters"]],
            throttle_secs=0,
            start_delay_secs=0,
            every_n_steps=given["evaluate_every"],
        ),
    )
    result = {name: float(value) for name, value in metrics.items()}
    model_dir.with_suffix(".result").write_text(json.dumps(result, sort_keys=True))


def export(given: Settings, folder: Path, model_dir: Path) -> None:
    """Again and again, keeping three."""
    from estimand.export import versions

    estimator, base = estimator_of(given, model_dir), str(folder / "exports")
    while True:
        estimator.export_saved_model(base, receiver_fn)
        versions.collect_garbage(base, keep=3)
        model_dir.with_suffix(".started").touch()


def counting_model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """Every step lowers w by a quarter, whatever the batch is: w tells the steps that went in."""
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    loss = tf.reduce_sum(w) + 0.0 * tf.reduce_sum(features["x"])
    train_op = v1.train.GradientDescentOptimizer(0.25).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def served(given: Settings, folder: Path, model_dir: Path) -> None:
    """One process of a cluster, in the role of TF_CONFIG."""
    config = est.RunConfig(str(model_dir), progress=False, **given["config"])
    hooks = [Started(model_dir.with_suffix(".started"))]
    input_fn = input_fn_of(given, folder / "data")
    est.train_and_evaluate(
        est.Estimator(counting_model_fn, config=config),
        est.TrainSpec(input_fn, max_steps=given["steps"], hooks=hooks),
        est.EvalSpec(eval_input_fn, steps=1),
    )


PROGRAMS = {
    "train": train,
    "train_and_evaluate": train_and_evaluate,
    "export": export,
    "served": served,
}


def main() -> None:
    what, folder, model_dir, settings = sys.argv[1:]
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    given = json.loads(settings)
    if what == "write_files":
        write_files(Path(folder) / "data")
    else:
        PROGRAMS[what](given, Path(folder), Path(model_dir))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking TensorFlow down takes longer than the training did


if __name__ == "__main__":
    main()
