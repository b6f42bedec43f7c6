"""`image_folder_input_fn`: images in folders, whose names are the classes."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.inputs.broken_data import SkipCounter, check_on_error, skipped_sentence
from estimand.inputs.images.augmentation import Augment, Change, make_change
from estimand.inputs.images.folders import ImageList, find_images, part_of
from estimand.inputs.order import Order, lean
from estimand.inputs.permutation import draw_seed, row_at
from estimand.inputs.sources import note_source

_WHERE = "image_folder_input_fn"
_DECODE = "estimand_decode_image"
_CHANNELS = {"rgb": 3, "grayscale": 1, "rgba": 4}
_IN_PARALLEL = 8


def image_folder_input_fn(
    directory: str | os.PathLike[str],
    image_size: tuple[int, int] = (256, 256),
    batch_size: int = 32,
    *,
    class_names: Sequence[str] | None = None,
    label_mode: str | None = "int",
    color_mode: str = "rgb",
    rescale: float | None = None,
    interpolation: str = "bilinear",
    augment: Augment = None,
    validation_split: float | None = None,
    subset: str | None = None,
    feature_name: str = "image",
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    drop_remainder: bool = False,
    on_error: str = "raise",
) -> ImageFolderInputFn:
    """An input function that reads images from one folder per class.

    Features are {"image": float32 [batch, height, width, channels]}, labels the number of the
    class among the folder names in alphabetical order.

    Args:
      directory: has a folder of images per class.
      image_size: (height, width) that every image is resized to.
      batch_size: images per batch.
      class_names: these classes only, numbered in this order.
      label_mode: "int", "categorical" (one-hot), or None for features alone.
      color_mode: "rgb", "grayscale" or "rgba".
      rescale: a factor for the values, which are 0 to 255; 1/255 for 0 to 1.
      interpolation: a method of `tf.image.resize`.
      augment: how to change images in training: "flip"; a dict such as {"flip": "both",
        "brightness": 0.1, "hue": 0.05, "contrast": (0.8, 1.2), "saturation": (0.8, 1.2),
        "crop": 0.1}; or a function (image, seed) -> image that draws from `tf.image.stateless_*`
        and `tf.random.stateless_*`.
      validation_split: the fraction of every class that is held back from training.
      subset: "training" or "validation". None: training reads the one, evaluation and
        prediction the other.
      feature_name: the key under which the images stand.
      num_epochs: how often to read all images. None: for ever in training, else once.
      shuffle: whether to draw a new order of all images for every epoch. None: only in training.
      seed: for an order, a split and changes that are the same in every run.
      drop_remainder: leave out a last batch that is smaller than the others.
      on_error: "raise" stops at the first image that cannot be read and names it; "skip" leaves
        such images out and reports how many there were.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name, value in (("cats", 0), ("dogs", 255)):
    ...     os.mkdir(os.path.join(folder, name))
    ...     image = tf.fill([4, 4, 3], tf.constant(value, tf.uint8))
    ...     tf.io.write_file(os.path.join(folder, name, "1.png"), tf.io.encode_png(image))
    >>> read = image_folder_input_fn(folder, image_size=(2, 2), augment="flip")
    >>> features, labels = next(iter(read(mode="eval")))
    >>> features["image"].shape.as_list(), labels.numpy().tolist()
    ([2, 2, 2, 3], [0, 1])
    """
    check_on_error(_WHERE, on_error)
    _check_choice("label_mode", label_mode, ("int", "categorical", None))
    _check_choice("color_mode", color_mode, tuple(_CHANNELS))
    _check_choice("subset", subset, ("training", "validation", None))
    _check_size(image_size)
    if validation_split is None and subset is not None:
        raise InputError(f"{_WHERE}: subset={subset!r} needs validation_split, such as 0.2.")
    if validation_split is not None and not 0 < validation_split < 1:
        raise InputError(
            f"{_WHERE}: validation_split must be between 0 and 1, given: {validation_split!r}."
        )
    order = Order(batch_size, num_epochs, shuffle, seed=seed, drop_remainder=drop_remainder)
    change = make_change(_WHERE, augment, 255.0 * (rescale or 1.0))
    names = None if class_names is None else tuple(class_names)
    return ImageFolderInputFn(
        directory, tuple(image_size), order, names, label_mode, _CHANNELS[color_mode], rescale,
        interpolation, change, validation_split, subset, feature_name, on_error,
    )  # fmt: skip


def _check_choice(name: str, value: Any, accepted: tuple[Any, ...]) -> None:
    if value not in accepted:
        raise InputError(
            f"{_WHERE}: {name} must be one of {', '.join(map(repr, accepted))}, given: {value!r}."
        )


def _check_size(size: Any) -> None:
    try:
        height, width = size
        if int(height) == height > 0 and int(width) == width > 0:
            return
    except (TypeError, ValueError):
        pass
    raise InputError(f"{_WHERE}: image_size must be a pair (height, width), given: {size!r}.")


@dataclasses.dataclass(frozen=True)
class ImageFolderInputFn:
    """What `image_folder_input_fn` returns: call it for a Dataset."""

    directory: str | os.PathLike[str]
    image_size: tuple[int, ...]
    order: Order
    wanted_classes: tuple[str, ...] | None
    label_mode: str | None
    channels: int
    rescale: float | None
    interpolation: str
    change: Change | None
    validation_split: float | None
    subset: str | None
    feature_name: str
    on_error: str

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; a label is a position in it."""
        return self._find().class_names

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        images = self._find()
        if self.validation_split is not None:
            part = self.subset or ("training" if mode == ModeKeys.TRAIN else "validation")
            images = part_of(
                images, self.validation_split, part == "validation", self.order.seed or 0
            )
            if not images.paths:
                raise InputError(
                    f"{_WHERE}: with validation_split={self.validation_split} no image of "
                    f"{os.fspath(self.directory)!r} is left for {part}."
                )
        if input_context is not None and len(images.paths) >= input_context.num_input_pipelines:
            # Shared out before they are shuffled: pipelines need not draw the same order.
            own = slice(input_context.input_pipeline_id, None, input_context.num_input_pipelines)
            images = dataclasses.replace(images, paths=images.paths[own], labels=images.labels[own])
            input_context = None
        change = self.change if mode == ModeKeys.TRAIN else None
        reading = ImageReading(self, images, change)
        reading.check_some_can_be_read()
        note_source(reading)
        return reading.dataset(self.order.for_mode(mode), input_context)

    def _find(self) -> ImageList:
        labelled = self.label_mode is not None
        return find_images(_WHERE, self.directory, self.wanted_classes, labelled)

    def load(self, path: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(
            tf.io.read_file(path), self.channels, expand_animations=False, name=_DECODE
        )
        image = tf.ensure_shape(image, [None, None, self.channels])
        image = tf.cast(tf.image.resize(image, self.image_size, self.interpolation), tf.float32)
        return image if self.rescale is None else image * self.rescale


class ImageReading:
    """One Dataset over images: how it is built, and what it can say of its faults."""

    def __init__(self, asked: ImageFolderInputFn, images: ImageList, change: Change | None) -> None:
        self._asked = asked
        self._images = images
        self._change = change
        self._counter = SkipCounter() if asked.on_error == "skip" else None

    def check_some_can_be_read(self) -> None:
        """When skipping: without a single image, reading for ever would never give a batch."""
        if self._counter is not None and all(map(self._fault_of, self._images.paths)):
            raise InputError(
                f"{_WHERE}: none of the {len(self._images.paths)} images of "
                f"{os.fspath(self._asked.directory)} can be read: {self._first_fault}."
            )

    def dataset(self, order: Order, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        with tf.device("/cpu:0"):
            row, draw = self._order(order), draw_seed(order.seed)
            paths, labels = tf.constant(self._images.paths), tf.constant(self._images.labels)

        def load(position: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            index = row(position)
            image = self._asked.load(tf.gather(paths, index))
            if self._change is not None:
                # Keyed by the place in the input: what is drawn can be drawn again.
                key = tf.stack([draw[0] ^ draw[1], position])
                image = tf.ensure_shape(self._change(image, key), image.shape)
            return image, tf.gather(labels, index)

        positions = self._positions(order, context)
        load = tf.autograph.experimental.do_not_convert(load)
        if self._counter is None:
            images = positions.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        else:
            images = self._readable(positions, load)
        batched = images.batch(
            order.batch_size, drop_remainder=order.drop_remainder or order.endless
        )
        return lean(batched.map(self._finish))

    def _order(self, order: Order) -> Any:
        seed = draw_seed(order.seed) if order.shuffle else None
        return functools.partial(row_at, rows=len(self._images.paths), seed=seed)

    def _positions(
        self, order: Order, context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        """Places in the input, counted over all epochs."""
        if order.endless:
            positions = tf.data.Dataset.counter()
        else:
            positions = tf.data.Dataset.range(len(self._images.paths) * (order.num_epochs or 0))
        if context is not None and context.num_input_pipelines > 1:
            positions = positions.shard(context.num_input_pipelines, context.input_pipeline_id)
        return positions

    def _readable(self, positions: tf.data.Dataset, load: Any) -> tf.data.Dataset:
        """The images that can be read, in the order of their positions."""
        counter = self._counter
        assert counter is not None
        shape = [*self._asked.image_size, self._asked.channels]
        from_tensors = tf.data.Dataset.from_tensors

        def one_image(position: tf.Tensor) -> tf.data.Dataset:
            good = from_tensors(position).map(lambda p: (True, *load(p))).ignore_errors()
            return good.concatenate(from_tensors((False, tf.zeros(shape), 0))).take(1)

        def count(good: tf.Tensor, image: tf.Tensor, label: tf.Tensor) -> Any:
            counter.add(1, tf.cast(tf.logical_not(good), tf.int64))
            return good, image, label

        plain = tf.autograph.experimental.do_not_convert
        tried = positions.interleave(
            plain(one_image),
            cycle_length=_IN_PARALLEL,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        kept = tried.map(plain(count)).filter(lambda good, image, label: good)
        return kept.map(lambda good, image, label: (image, label))

    def _finish(self, images: tf.Tensor, labels: tf.Tensor) -> Any:
        features = {self._asked.feature_name: images}
        if self._asked.label_mode is None:
            return features
        if self._asked.label_mode == "categorical":
            return features, tf.one_hot(labels, len(self._images.class_names))
        return features, tf.cast(labels, tf.int64)

    def explain_error(self, error: BaseException) -> Exception | None:
        ours = isinstance(error, tf.errors.NotFoundError) or _DECODE in str(error)
        if not ours or self._first_fault is None:
            return None
        return InputError(
            f"{_WHERE}: {self._first_fault}. Replace or remove the file; or, to leave such images "
            "out and have them counted, pass on_error='skip'."
        )

    def report_skipped(self) -> str | None:
        of = os.fspath(self._asked.directory)
        return skipped_sentence(
            self._counter, "images", of, lambda: self._first_fault and f"{self._first_fault}."
        )

    @functools.cached_property
    def _first_fault(self) -> str | None:
        """The first image that cannot be read, with what TensorFlow says of it."""
        return next(filter(None, map(self._fault_of, self._images.paths)), None)

    def _fault_of(self, path: str) -> str | None:
        with tf_private.eager_mode(), tf.device("/cpu:0"):
            try:
                self._asked.load(tf.constant(path))
            except tf.errors.OpError as error:
                return _told(path, error)
        return None


def _told(path: str, error: tf.errors.OpError) -> str:
    if isinstance(error, tf.errors.NotFoundError):
        return f"{path} is no longer there"
    if not tf.io.gfile.stat(path).length:
        return f"{path} is empty (0 bytes)"
    reason = error.message.rpartition("}} ")[2].partition(" [Op:")[0].splitlines()[0]
    return f"{path} cannot be read as an image: {reason.rstrip('.')}"
