"""Retraining: a new classifier on top of a network that was trained on something else."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.bridge import bottlenecks
from estimand.bridge.keras import model_to_estimator
from estimand.bridge.keras_model_fn import KerasModelFn
from estimand.bridge.keras_weights import as_checkpoint, load
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.export_output import PredictOutput
from estimand.core.files import atomic_files
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator
from estimand.export.receivers import ServingInputReceiver
from estimand.inputs.images.folders import find_images, part_of
from estimand.inputs.memory.arrays import numpy_input_fn

LABELS = "labels.txt"
EXPORT = "export"
IMAGE_KEY = "image_bytes"
_RECORD = "retrain.json"


@dataclass(frozen=True)
class Retrained:
    """What came of it."""

    directory: str
    export: str
    class_names: tuple[str, ...]
    images: int
    computed: int
    # How many images the metrics are of, kept from training; 0: they are of the training images.
    held_back: int
    metrics: dict[str, Any]


def retrain(
    images: str | os.PathLike[str],
    base: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    steps: int = 500,
    batch_size: int = 100,
    learning_rate: float = 0.005,
    dropout: float = 0.0,
    validation: float = 0.1,
    layer: str | None = None,
    size: tuple[int, int] | None = None,
    pixels: tuple[float, float] | None = None,
    cache: str | os.PathLike[str] | None = None,
    seed: int = 0,
    custom_objects: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Retrained:
    """Train a classifier of the images in folders on what a Keras network sees in them.

    `out` gets `export/` (a SavedModel from image bytes to class names), `model.keras`,
    `labels.txt`, and what is needed to go on: the same call with more `steps` continues.

    Args:
      images: a directory with one folder of images per class.
      base: a `.keras` or `.h5` file of a network for images.
      out: the directory to fill.
      steps: of training, in all.
      batch_size: images per step.
      learning_rate: of Adam.
      dropout: the fraction of a bottleneck that is left out at random in training.
      validation: the fraction of each class that is held back to measure with.
      layer, size, pixels, custom_objects: as of `bottlenecks.load_base`.
      cache: where bottlenecks are kept; by default in `out`.
      seed: for the split and the training.
      report: is told what happens, line by line.
    """
    labelled = find_images("retrain", images, None, True)
    if len(labelled.class_names) < 2:
        raise ConfigError(
            f"{os.fspath(images)!r} has one class folder only: {labelled.class_names[0]!r}. There "
            "have to be two or more to tell apart."
        )
    network = bottlenecks.load_base(
        base, layer=layer, size=size, pixels=pixels, custom_objects=custom_objects
    )
    folder = os.path.abspath(os.fspath(out))
    os.makedirs(folder, exist_ok=True)
    _check_same(folder, network, labelled.class_names)
    report(f"{len(labelled.paths)} images of {len(labelled.class_names)} classes")
    vectors, computed = bottlenecks.compute(
        network,
        labelled.paths,
        cache or os.path.join(folder, "bottlenecks"),
        lambda done, of: report(f"bottlenecks: {done} of {of}"),
    )
    held_back = set(part_of(labelled, validation, True, seed).paths) if validation else set()
    held = np.array([path in held_back for path in labelled.paths])
    labels = np.array(labelled.labels, np.int64)
    report(f"training on {int((~held).sum())} of them; {computed} bottlenecks were new")
    estimator = model_to_estimator(
        _head(network.width, len(labelled.class_names), learning_rate, dropout),
        config=RunConfig(model_dir=os.path.join(folder, "training"), tf_random_seed=seed),
    )
    read = numpy_input_fn(
        vectors[~held], labels[~held], batch_size=batch_size, num_epochs=None, shuffle=True
    )
    estimator.train(read, max_steps=steps)
    metrics = _measure(estimator, vectors, labels, held if held.any() else ~held)
    model = _whole(network, load(estimator.model_dir))
    step = int(metrics["global_step"])
    exported = _write_all(folder, network, model, labelled.class_names, step)
    return Retrained(
        folder,
        exported,
        labelled.class_names,
        len(labelled.paths),
        computed,
        int(held.sum()),
        metrics,
    )


def _head(width: int, classes: int, learning_rate: float, dropout: float) -> Any:
    import keras

    layers = [keras.Input([width], name="bottleneck")]
    if dropout:
        layers.append(keras.layers.Dropout(dropout))
    layers.append(keras.layers.Dense(classes, name="head"))
    model = keras.Sequential(layers, name="classifier")
    model.compile(
        keras.optimizers.Adam(learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def _measure(
    estimator: Estimator, vectors: np.ndarray, labels: np.ndarray, which: np.ndarray
) -> dict[str, Any]:
    read = numpy_input_fn(
        vectors[which], labels[which], batch_size=128, num_epochs=1, shuffle=False
    )
    return estimator.evaluate(read)


def _check_same(folder: str, network: bottlenecks.Base, names: Sequence[str]) -> None:
    """A directory belongs to one network and one set of classes."""
    now = {"base": network.fingerprint, "classes": list(names)}
    path = os.path.join(folder, _RECORD)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        if before != now:
            what = "other classes" if before["base"] == now["base"] else "another network"
            raise ConfigError(
                f"{folder!r} holds what was retrained with {what} ({before['classes']}, now "
                f"{now['classes']}). Give another directory for --out, or remove this one."
            )
    atomic_files.replace_text(path, json.dumps(now))


def _whole(network: bottlenecks.Base, head: Any) -> Any:
    """From prepared images to probabilities, in one Keras model."""
    import keras

    image = keras.Input([*network.size, network.channels], name="image")
    logits = head(network.extractor(image))
    return keras.Model(image, keras.layers.Softmax(name="probabilities")(logits), name="retrained")


def _write_all(
    folder: str, network: bottlenecks.Base, model: Any, names: Sequence[str], step: int
) -> str:
    atomic_files.replace_text(os.path.join(folder, LABELS), "".join(f"{n}\n" for n in names))
    with atomic_files.replacing(os.path.join(folder, "model.keras")) as temporary:
        model.save(temporary)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = as_checkpoint(model, scratch, step=step)
        estimator = Estimator(_serving_model_fn(model, names), model_dir=scratch)
        exported = estimator.export_saved_model(
            os.path.join(folder, EXPORT),
            lambda: _receiver(network),
            assets_extra={LABELS: os.path.join(folder, LABELS)},
            checkpoint_path=checkpoint,
        )
    return os.fsdecode(exported)


def _serving_model_fn(model: Any, names: Sequence[str]) -> Callable[..., EstimatorSpec]:
    run = KerasModelFn(model, make_optimizer=lambda: None)

    def retrained(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        del labels
        assert mode == ModeKeys.PREDICT
        probabilities = run(features, None, mode).predictions["probabilities"]
        best = tf.argmax(probabilities, axis=-1)
        predictions = {
            "class": tf.gather(tf.constant(list(names)), best),
            "class_id": best,
            "probabilities": probabilities,
        }
        key = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        return EstimatorSpec(mode, predictions, export_outputs={key: PredictOutput(predictions)})

    return retrained


def _receiver(network: bottlenecks.Base) -> ServingInputReceiver:
    encoded = tf.compat.v1.placeholder(tf.string, [None], name=IMAGE_KEY)
    shape = tf.TensorSpec([*network.size, network.channels], tf.float32)
    images = tf.map_fn(network.prepare, encoded, fn_output_signature=shape)
    return ServingInputReceiver({"image": images}, {IMAGE_KEY: encoded})
