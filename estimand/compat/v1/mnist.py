"""`tensorflow.examples.tutorials.mnist.input_data`: the digits, read from files that lie here."""

from __future__ import annotations

import gzip
import os
from typing import Any, NamedTuple

import numpy as np

from estimand.core.errors import InputError

_FILES = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
_CLASSES = 10
_IMAGES, _LABELS = 2051, 2049  # what such files begin with


class Datasets(NamedTuple):
    """What `read_data_sets` gives."""

    train: DataSet
    validation: DataSet
    test: DataSet


class DataSet:
    """Images and labels, in batches that go round and round."""

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        del fake_data, one_hot
        if reshape and images.ndim > 2:
            images = images.reshape(len(images), -1)
        if np.dtype(getattr(dtype, "as_numpy_dtype", dtype)) == np.float32:
            images = images.astype(np.float32) / 255.0
        self.images, self.labels = images, labels
        self.num_examples = len(images)
        self.epochs_completed = 0
        self._place = 0
        self._random = np.random.RandomState(seed)

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The next so many; at the end the rest, and the first ones of the next round."""
        del fake_data
        if self._place == 0 and self.epochs_completed == 0 and shuffle:
            self._mix()
        end = self._place + batch_size
        images, labels = self.images[self._place : end], self.labels[self._place : end]
        self._place = end
        if end > self.num_examples:
            self.epochs_completed += 1
            if shuffle:
                self._mix()
            self._place = end - self.num_examples
            images = np.concatenate([images, self.images[: self._place]])
            labels = np.concatenate([labels, self.labels[: self._place]])
        return images, labels

    def _mix(self) -> None:
        order = self._random.permutation(self.num_examples)
        self.images, self.labels = self.images[order], self.labels[order]


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """The four files of MNIST in `train_dir`, packed with gzip or not; nothing is downloaded."""
    del fake_data, source_url
    (images, labels), (test_images, test_labels) = (
        (_images(train_dir, image_file), _labels(train_dir, label_file, one_hot))
        for image_file, label_file in _FILES
    )
    if not 0 <= validation_size <= len(images):
        raise InputError(
            f"Validation size should be between 0 and {len(images)}. Received: {validation_size}."
        )
    how = {"dtype": dtype, "reshape": reshape, "seed": seed}
    size = validation_size
    return Datasets(
        train=DataSet(images[size:], labels[size:], **how),
        validation=DataSet(images[:size], labels[:size], **how),
        test=DataSet(test_images, test_labels, **how),
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """`tf.contrib.learn.datasets.load_dataset("mnist")`."""
    return read_data_sets(train_dir)


def load_dataset(name: str, **options: Any) -> Any:
    """`tf.contrib.learn.datasets.load_dataset`: of its data sets only MNIST can be read here."""
    if name != "mnist":
        raise InputError(
            f"tf.contrib.learn.datasets.load_dataset({name!r}): its data set cannot be had any "
            "more; only 'mnist' is read, from files. Load the data yourself, with "
            "sklearn.datasets for example."
        )
    return load_mnist(**options)


def _images(folder: str, name: str) -> np.ndarray:
    header, data = _read(folder, name, _IMAGES, 4)
    return data.reshape(header[1], header[2], header[3], 1)


def _labels(folder: str, name: str, one_hot: bool) -> np.ndarray:
    _, data = _read(folder, name, _LABELS, 2)
    return np.eye(_CLASSES)[data] if one_hot else data


def _read(folder: str, name: str, magic: int, numbers: int) -> tuple[list[int], np.ndarray]:
    for path, opener in (
        (os.path.join(folder, f"{name}.gz"), gzip.open),
        (os.path.join(folder, name), open),
    ):
        if os.path.exists(path):
            with opener(path, "rb") as file:
                contents = file.read()
            header = np.frombuffer(contents, ">u4", numbers).tolist()
            if header[0] != magic:
                raise InputError(f"Invalid magic number {header[0]} in MNIST file: {path}")
            return header, np.frombuffer(contents, np.uint8, offset=4 * numbers)
    raise InputError(
        f"There is no {name}.gz in {os.path.abspath(folder)}: the place that MNIST was downloaded "
        "from is no more. Put the four files of MNIST there "
        "(train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
        "t10k-labels-idx1-ubyte.gz), or take tf.keras.datasets.mnist.load_data()."
    )
