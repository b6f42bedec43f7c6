"""Random changes of images, each drawn from the image's place in the input and nothing else.

So a resumed run changes the images it reads as the uninterrupted one would have done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError

Change = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # (image, seed) -> image
Augment = str | Mapping[str, Any] | Change | None

_RANGES = ("contrast", "saturation")
_DELTAS = ("brightness", "hue")


def make_change(where: str, augment: Augment, top: float) -> Change | None:
    """The function that `augment` stands for; `top` is the value of white in its images."""
    if augment is None or callable(augment):
        return augment
    options = {augment: True} if isinstance(augment, str) else dict(augment)
    known = ("flip", "crop", *_DELTAS, *_RANGES)
    unknown = [name for name in options if name not in known]
    if unknown or not options:
        raise InputError(
            f"{where}: augment must be a function (image, seed) -> image, 'flip', or a dict of "
            f"{', '.join(known)}; given: {augment!r}. For example: "
            "augment={'flip': True, 'brightness': 0.1, 'contrast': (0.8, 1.2), 'crop': 0.1}."
        )
    steps = [_step(where, name, value, top) for name, value in options.items() if value]

    def change(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        for number, step in enumerate(steps):
            image = step(image, tf.random.experimental.stateless_fold_in(seed, number))
        return image

    return change


def _step(where: str, name: str, value: Any, top: float) -> Change:
    if name == "flip":
        return _flip(where, value)
    if name in _RANGES:
        low, high = _range(where, name, value)
        function = getattr(tf.image, f"stateless_random_{name}")
        return lambda image, seed: _clipped(function(image, low, high, seed), top)
    fraction = _fraction(where, name, value)
    if name == "crop":
        return lambda image, seed: _crop(image, fraction, seed)
    if name == "brightness":
        return lambda image, seed: _clipped(
            tf.image.stateless_random_brightness(image, fraction * top, seed), top
        )
    return lambda image, seed: (
        top * tf.image.stateless_random_hue(image / top, min(fraction, 0.5), seed)
    )


def _flip(where: str, value: Any) -> Change:
    left_right, up_down = (
        tf.image.stateless_random_flip_left_right,
        tf.image.stateless_random_flip_up_down,
    )
    if value is True or value == "horizontal":
        return left_right
    if value == "vertical":
        return up_down
    if value == "both":
        return lambda image, seed: up_down(
            left_right(image, seed), tf.random.experimental.stateless_fold_in(seed, 99)
        )
    raise InputError(
        f"{where}: augment['flip'] must be True, 'horizontal', 'vertical' or 'both', "
        f"given: {value!r}."
    )


def _crop(image: tf.Tensor, fraction: float, seed: tf.Tensor) -> tf.Tensor:
    """Cut off up to `fraction` of the height and the width, and stretch what is left."""
    shape = image.shape
    scale = tf.random.stateless_uniform([], seed, 1.0 - fraction, 1.0)
    size = [tf.cast(tf.cast(side, tf.float32) * scale, tf.int32) for side in shape[:2]]
    size = [tf.maximum(side, 1) for side in size]
    place = tf.random.experimental.stateless_fold_in(seed, 99)
    cut = tf.image.stateless_random_crop(image, [*size, shape[2]], place)
    return tf.ensure_shape(tf.image.resize(cut, shape[:2]), shape)


def _clipped(image: tf.Tensor, top: float) -> tf.Tensor:
    return tf.clip_by_value(image, 0.0, top)


def _range(where: str, name: str, value: Any) -> tuple[float, float]:
    try:
        low, high = value
        if 0 <= low < high:
            return float(low), float(high)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"{where}: augment[{name!r}] must be a pair such as (0.8, 1.2), given: {value!r}."
    )


def _fraction(where: str, name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise InputError(
        f"{where}: augment[{name!r}] must be a number between 0 and 1, given: {value!r}."
    )
