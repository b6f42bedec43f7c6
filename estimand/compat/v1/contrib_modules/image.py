"""`tf.contrib.image`: images turned, moved, and seen from elsewhere.

A transform is eight numbers, a0 to b2 and c0, c1: the pixel at (x, y) of the result is that at
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) of the image, with k = c0 x + c1 y + 1.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> tf.Tensor:
    """Turned by angles in radians, against the clock, about their centres."""
    with v1.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images)
        rows, columns = _sizes(images)
        transforms = angles_to_projective_transforms(angles, rows, columns)
        return transform(images, transforms, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None
) -> tf.Tensor:
    """Moved by [dx, dy]."""
    with v1.name_scope(name, "translate"):
        moves = translations_to_projective_transforms(translations)
        return transform(images, moves, interpolation)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """By one transform for all images, or one for each; black where there was no image.

    Args:
        images: [batch, rows, columns, channels], without the batch, or rows and columns alone.
        transforms: eight numbers, or [batch, 8].
        interpolation: "NEAREST" or "BILINEAR".
        output_shape: rows and columns of the result; those of the images by default.
        name: of the operation.
    """
    with v1.name_scope(name, "transform"):
        given = tf.convert_to_tensor(images)
        rank = given.shape.rank
        if rank not in (2, 3, 4):
            raise ConfigError(f"Images should have rank between 2 and 4, not {rank}.")
        batch = given if rank == 4 else given[tf.newaxis]
        batch = batch if rank > 2 else batch[..., tf.newaxis]
        numbers = tf.cast(transforms, tf.float32)
        made = tf.raw_ops.ImageProjectiveTransformV3(
            images=batch,
            transforms=numbers if numbers.shape.rank == 2 else numbers[tf.newaxis],
            output_shape=tf.shape(batch)[1:3] if output_shape is None else output_shape,
            fill_value=0.0,
            interpolation=interpolation.upper(),
        )
        if output_shape is None:
            made.set_shape(batch.shape)
        return made if rank == 4 else made[0] if rank == 3 else made[0, ..., 0]


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> tf.Tensor:
    """The transforms of rotations: [batch, 8]."""
    with v1.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.reshape(tf.cast(angles, tf.float32), [-1])
        x, y = ((tf.cast(size, tf.float32) - 1) / 2 for size in (image_width, image_height))
        cos, sin, zeros = tf.cos(angles), tf.sin(angles), tf.zeros_like(angles)
        parts = [cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y, zeros, zeros]
        return tf.stack(parts, 1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> tf.Tensor:
    """The transforms of moves by [dx, dy]: [batch, 8]."""
    with v1.name_scope(name, "translations_to_projective_transforms"):
        moves = tf.reshape(tf.cast(translations, tf.float32), [-1, 2])
        zeros, ones = tf.zeros_like(moves[:, 0]), tf.ones_like(moves[:, 0])
        parts = [ones, zeros, -moves[:, 0], zeros, ones, -moves[:, 1], zeros, zeros]
        return tf.stack(parts, 1)


def compose_transforms(*transforms: Any, **name: Any) -> tf.Tensor:
    """One transform for several, of which the first comes first."""
    with v1.name_scope(name.get("name"), "compose_transforms"):
        matrices = [flat_transforms_to_matrices(transform) for transform in transforms]
        return matrices_to_flat_transforms(functools.reduce(tf.matmul, matrices))


def flat_transforms_to_matrices(transforms: Any, name: str | None = None) -> tf.Tensor:
    """[batch, 3, 3] of eight numbers each."""
    with v1.name_scope(name, "flat_transforms_to_matrices"):
        flat = tf.reshape(tf.cast(transforms, tf.float32), [-1, 8])
        return tf.reshape(tf.concat([flat, tf.ones_like(flat[:, :1])], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any, name: str | None = None) -> tf.Tensor:
    """Eight numbers of [batch, 3, 3]."""
    with v1.name_scope(name, "matrices_to_flat_transforms"):
        flat = tf.reshape(tf.cast(transform_matrices, tf.float32), [-1, 9])
        return flat[:, :8] / flat[:, 8:]


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> tf.Tensor:
    """Each pixel (row, column) is that at (row, column) - flow, between the four around it.

    Args:
        image: [batch, rows, columns, channels].
        flow: [batch, rows, columns, 2].
        name: of the operation.
    """
    with v1.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        rows, columns = _sizes(image)
        grid = tf.stack(tf.meshgrid(tf.range(rows), tf.range(columns), indexing="ij"), -1)
        asked = tf.cast(grid, flow.dtype) - flow
        last = tf.cast(tf.stack([rows, columns]) - 2, flow.dtype)
        corner = tf.minimum(tf.maximum(tf.floor(asked), 0.0), last)
        share = tf.cast(tf.clip_by_value(asked - corner, 0.0, 1.0), image.dtype)
        places = tf.cast(corner, tf.int32)

        def at(down: int, right: int) -> tf.Tensor:
            return tf.gather_nd(image, places + tf.constant([down, right]), batch_dims=1)

        y, x = share[..., :1], share[..., 1:]
        upper = at(0, 0) * (1 - x) + at(0, 1) * x
        lower = at(1, 0) * (1 - x) + at(1, 1) * x
        return upper * (1 - y) + lower * y


def _sizes(images: Any) -> tuple[Any, Any]:
    """Rows and columns of images of any rank."""
    first = 1 if images.shape.rank == 4 else 0
    return tf.shape(images)[first], tf.shape(images)[first + 1]
