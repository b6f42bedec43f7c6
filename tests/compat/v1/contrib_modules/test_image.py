"""`tf.contrib.image` against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage

from estimand.compat.v1 import contrib

image = contrib.image


def picture(*shape: int) -> Any:
    return np.random.RandomState(0).uniform(size=shape).astype(np.float32)


def test_a_quarter_turn() -> None:
    x = picture(2, 5, 5, 3)
    np.testing.assert_allclose(image.rotate(x, np.pi / 2), np.rot90(x, axes=(1, 2)), atol=1e-6)
    turned = image.rotate(x, [0.0, np.pi], "BILINEAR")
    np.testing.assert_allclose(turned[0], x[0], atol=1e-5)
    np.testing.assert_allclose(turned[1], x[1, ::-1, ::-1], atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 2), (2, 5, 6, 2)])
def test_moved_by_pixels(shape: tuple[int, ...]) -> None:
    x = picture(*shape)
    moved = image.translate(x, [2, -1]).numpy()
    expected = np.zeros_like(x)
    if len(shape) == 4:
        expected[:, :-1, 2:] = x[:, 1:, :-2]
    else:
        expected[:-1, 2:] = x[1:, :-2]
    np.testing.assert_array_equal(moved, expected)


def test_transforms_are_composed() -> None:
    x = picture(1, 7, 7, 1)
    turn = image.angles_to_projective_transforms(np.pi / 2, 7, 7)
    move = image.translations_to_projective_transforms([1, 2])
    both = image.compose_transforms(turn, move)
    # The pixel of the result is looked up by the last transform first.
    expected = image.transform(image.transform(x, turn), move)
    np.testing.assert_allclose(image.transform(x, both), expected, atol=1e-5)
    flat = image.matrices_to_flat_transforms(image.flat_transforms_to_matrices(turn))
    np.testing.assert_allclose(flat, turn, atol=1e-6)
    assert image.transform(x, turn, output_shape=[3, 4]).shape == (1, 3, 4, 1)


def test_a_flow_moves_each_pixel() -> None:
    x = picture(2, 6, 5, 2)
    flow = np.random.RandomState(1).uniform(-2, 2, size=(2, 6, 5, 2)).astype(np.float32)
    warped = image.dense_image_warp(x, flow)
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(5), indexing="ij"), -1)
    for b in range(2):
        places = (grid - flow[b]).transpose(2, 0, 1)
        for channel in range(2):
            expected = scipy.ndimage.map_coordinates(
                x[b, ..., channel], places, order=1, mode="nearest"
            )
            np.testing.assert_allclose(warped[b, ..., channel], expected, atol=1e-5)
