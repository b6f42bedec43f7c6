"""Bottlenecks: what the network gives, computed once."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

import estimand as est
from estimand.bridge import bottlenecks
from tests.bridge.images import SIZE, network, write_images


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    folder = write_images(tmp_path / "images", each=2)
    return sorted(str(path) for path in folder.glob("*/*"))


def save(model: keras.Model, tmp_path: Path) -> Path:
    model.save(tmp_path / "base.keras")
    return tmp_path / "base.keras"


def resized(paths: list[str]) -> np.ndarray:
    """With Keras' own reading, 0 to 255."""
    loaded = [keras.utils.img_to_array(keras.utils.load_img(path)) for path in paths]
    return np.stack([np.array(keras.ops.image.resize(image, (SIZE, SIZE))) for image in loaded])


def test_they_are_what_goes_into_the_classifier(tmp_path: Path, images: list[str]) -> None:
    model = network()
    base = bottlenecks.load_base(save(model, tmp_path))
    # Of the PNG files: two decoders of JPEG need not agree to the last bit.
    paths = [path for path in images if path.endswith("png")]
    found, computed = bottlenecks.compute(base, paths, tmp_path / "cache")
    inside = keras.Model(model.inputs, model.get_layer("pool").output)
    expected = inside.predict(resized(paths) / 127.5 - 1.0, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert computed == 3


def test_a_network_that_scales_pixels_gets_them_unscaled(tmp_path: Path, images: list[str]) -> None:
    model = network(keras.layers.Rescaling(1 / 255), classifier=False)
    base = bottlenecks.load_base(save(model, tmp_path))
    paths = [path for path in images if path.endswith("png")]
    found, _ = bottlenecks.compute(base, paths, tmp_path / "cache")
    np.testing.assert_allclose(found, model.predict(resized(paths), verbose=0), atol=1e-4)


def test_another_layer_is_pooled_to_a_vector(tmp_path: Path, images: list[str]) -> None:
    model = network()
    base = bottlenecks.load_base(save(model, tmp_path), layer="conv")
    inside = keras.Model(model.inputs, model.get_layer("conv").output)
    paths = [path for path in images if path.endswith("png")]
    found, _ = bottlenecks.compute(base, paths, tmp_path / "cache")
    expected = inside.predict(resized(paths) / 127.5 - 1.0, verbose=0).mean(axis=(1, 2))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_nothing_is_computed_twice(tmp_path: Path, images: list[str]) -> None:
    path = save(network(), tmp_path)
    first, computed = bottlenecks.compute(bottlenecks.load_base(path), images, tmp_path / "c")
    Path(images[0]).rename(tmp_path / "renamed.jpg")
    renamed = [str(tmp_path / "renamed.jpg"), *images[1:]]
    again, more = bottlenecks.compute(bottlenecks.load_base(path), renamed, tmp_path / "c")
    assert (computed, more) == (6, 0)
    np.testing.assert_array_equal(first, again)


def test_a_changed_image_and_a_damaged_file_are_computed_anew(
    tmp_path: Path, images: list[str]
) -> None:
    base = bottlenecks.load_base(save(network(), tmp_path))
    first, _ = bottlenecks.compute(base, images, tmp_path / "c")
    Path(images[0]).write_bytes(Path(images[2]).read_bytes())
    kept = sorted((tmp_path / "c" / base.fingerprint).glob("*.npy"))
    places = {np.load(path).tobytes(): path for path in kept}
    places[first[5].tobytes()].write_bytes(b"half of")
    again, computed = bottlenecks.compute(base, images, tmp_path / "c")
    assert computed == 1  # the copied image is known by its contents
    np.testing.assert_array_equal(again[0], first[2])
    np.testing.assert_array_equal(again[1:], first[1:])


def test_another_network_has_bottlenecks_of_its_own(tmp_path: Path, images: list[str]) -> None:
    path = save(network(), tmp_path)
    bottlenecks.compute(bottlenecks.load_base(path), images, tmp_path / "c")
    other = bottlenecks.load_base(path, pixels=(0.0, 1.0))
    assert bottlenecks.compute(other, images, tmp_path / "c")[1] == len(images)


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path, images: list[str]) -> None:
    Path(images[3]).write_bytes(b"not an image")
    base = bottlenecks.load_base(save(network(), tmp_path))
    with pytest.raises(est.errors.InputError, match=rf"{images[3]} cannot be read as an image"):
        bottlenecks.compute(base, images, tmp_path / "c")


def test_a_layer_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(est.errors.ConfigError, match=r"no layer 'last'. It has: conv,"):
        bottlenecks.load_base(save(network(), tmp_path), layer="last")


def test_a_network_for_something_else(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input([5]), keras.layers.Dense(1)])
    with pytest.raises(est.errors.ConfigError, match=r"takes \(None, 5\), but has to take one"):
        bottlenecks.load_base(save(model, tmp_path))
