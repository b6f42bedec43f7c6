"""What a trained network sees in images: computed once per image and kept on disk.

A bottleneck is the output of the last layer before a network's classifier. Retraining replaces
only the classifier, so an image has to go through the rest of the network only once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError, InputError
from estimand.core.files import atomic_files

_DEFAULT_SIZE = 224
_BATCH = 32


@dataclass(frozen=True)
class Base:
    """A network without its classifier, and how images are made ready for it."""

    extractor: Any
    size: tuple[int, int]
    channels: int
    # What black and white become.
    pixels: tuple[float, float]
    # Of the network and all of the above: bottlenecks are kept under it.
    fingerprint: str

    @property
    def width(self) -> int:
        """How many numbers a bottleneck has."""
        return int(self.extractor.output_shape[-1])

    def prepare(self, encoded: tf.Tensor) -> tf.Tensor:
        """From the bytes of an image file to what the network takes."""
        image = tf.io.decode_image(encoded, self.channels, expand_animations=False)
        image = tf.ensure_shape(image, [None, None, self.channels])
        image = tf.cast(tf.image.resize(image, self.size), tf.float32)
        low, high = self.pixels
        return image * ((high - low) / 255.0) + low


def load_base(
    path: str | os.PathLike[str],
    *,
    layer: str | None = None,
    size: tuple[int, int] | None = None,
    pixels: tuple[float, float] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
) -> Base:
    """Read a network from a `.keras` or `.h5` file.

    Args:
      path: the file.
      layer: the layer whose output to take. None: what the last Dense layer takes, if the
        network ends in one, or else its output.
      size: (height, width) of images, for networks that take any.
      pixels: what black and white become. None: -1 and 1, or 0 and 255 for a network that
        begins with a Rescaling or Normalization layer of its own.
      custom_objects: classes and functions that the file names and Keras does not know.
    """
    import keras

    where = os.fspath(path)
    if not os.path.isfile(where):
        raise ConfigError(
            f"There is no file {where!r} to take the network from. Save one with "
            "model.save('base.keras')."
        )
    with tf_private.eager_mode():
        objects = dict(custom_objects or {})
        model = keras.models.load_model(where, custom_objects=objects, compile=False)
        features = _as_vector(_features(model, layer))
        extractor = keras.Model(model.inputs, features, name="base")
    shape = _image_shape(model, size)
    if pixels is None:
        pixels = (0.0, 255.0) if _scales_itself(model) else (-1.0, 1.0)
    fingerprint = _digest(where, f"{layer} {shape} {pixels}")
    return Base(extractor, shape[:2], shape[2], pixels, fingerprint)


def _features(model: Any, layer: str | None) -> Any:
    import keras

    if layer is not None:
        names = [layer.name for layer in model.layers]
        if layer not in names:
            raise ConfigError(f"The network has no layer {layer!r}. It has: {', '.join(names)}.")
        return model.get_layer(layer).output
    after = (keras.layers.Activation, keras.layers.Softmax, keras.layers.Dropout)
    ending = [layer for layer in model.layers if not isinstance(layer, after)]
    if ending and isinstance(ending[-1], keras.layers.Dense):
        return ending[-1].input
    return model.outputs[0]


def _as_vector(features: Any) -> Any:
    import keras

    if len(features.shape) == 4:
        return keras.layers.GlobalAveragePooling2D(name="bottleneck")(features)
    if len(features.shape) > 2:
        return keras.layers.Flatten(name="bottleneck")(features)
    return features


def _image_shape(model: Any, size: tuple[int, int] | None) -> tuple[int, int, int]:
    if len(model.inputs) != 1 or len(model.inputs[0].shape) != 4:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in model.inputs)
        raise ConfigError(
            f"The network takes {shapes}, but has to take one batch of images: (None, height, "
            "width, channels)."
        )
    _, height, width, channels = model.inputs[0].shape
    wanted = size or (height or _DEFAULT_SIZE, width or _DEFAULT_SIZE)
    if height not in (None, wanted[0]) or width not in (None, wanted[1]):
        raise ConfigError(f"The network takes images of {height}x{width}, given: {wanted}.")
    return int(wanted[0]), int(wanted[1]), int(channels)


def _scales_itself(model: Any) -> bool:
    import keras

    kinds = (keras.layers.Rescaling, keras.layers.Normalization)
    return any(isinstance(layer, kinds) for layer in tf_private.keras_layers(model)[:4])


def _digest(path: str, told: str) -> str:
    digest = hashlib.sha256(told.encode())
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()[:16]


# ------------------------------------------------------------------ the cache


def compute(
    base: Base,
    paths: Sequence[str],
    cache: str | os.PathLike[str],
    report: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, int]:
    """Bottlenecks of images, in their order, and how many of them were not there yet.

    Each lies in a file named by the contents of its image: an image that is renamed or comes
    twice is known, a changed one is computed anew. A file appears whole or not at all.
    """
    folder = os.path.join(os.fspath(cache), base.fingerprint)
    os.makedirs(folder, exist_ok=True)
    places = [os.path.join(folder, f"{_image_digest(path)}.npy") for path in paths]
    rows = [_read(place, base.width) for place in places]
    missing = [i for i, row in enumerate(rows) if row is None]
    done = 0
    for indices, values in _in_batches(base, paths, missing):
        for i, value in zip(indices, values, strict=True):
            rows[i] = value
            _write(places[i], value)
        done += len(indices)
        if report is not None:
            report(done, len(missing))
    return np.stack([row for row in rows if row is not None]), len(missing)


def _in_batches(
    base: Base, paths: Sequence[str], missing: Sequence[int]
) -> Iterator[tuple[Sequence[int], np.ndarray]]:
    see = tf.function(lambda images: base.extractor(images, training=False), reduce_retracing=True)
    for start in range(0, len(missing), _BATCH):
        indices = missing[start : start + _BATCH]
        with tf_private.eager_mode():
            images = tf.stack([_prepared(base, paths[i]) for i in indices])
            values = np.asarray(see(images), np.float32)
        yield indices, values


def _prepared(base: Base, path: str) -> tf.Tensor:
    try:
        return base.prepare(tf.io.read_file(path))
    except tf.errors.OpError as error:
        reason = error.message.rpartition("}} ")[2].partition(" [Op:")[0].splitlines()[0]
        raise InputError(
            f"{path} cannot be read as an image: {reason}. Replace or remove the file."
        ) from error


def _image_digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:32]


def _read(place: str, width: int) -> np.ndarray | None:
    """A bottleneck that is there and whole."""
    try:
        value = np.load(place)
    except (OSError, ValueError, EOFError):
        return None
    return value if value.shape == (width,) else None


def _write(place: str, value: np.ndarray) -> None:
    with atomic_files.replacing(place) as temporary, open(temporary, "wb") as file:
        np.save(file, value)
