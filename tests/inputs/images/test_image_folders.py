"""image_folder_input_fn: pixels against PIL, classes, splits, augmentation, broken images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from estimand.core.errors import InputError
from estimand.inputs import image_folder_input_fn
from tests.inputs.reading import batches, call, read_fault, skipped

HEIGHT, WIDTH, EACH = 6, 8, 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(EACH):
            pixels = random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    return tmp_path


def read(folder: Path, mode: str = "eval", count: int | None = None, **options: Any) -> Any:
    """(images, labels) of all batches, put together."""
    options = {"image_size": (HEIGHT, WIDTH), "batch_size": 4, **options}
    found = batches(call(image_folder_input_fn(folder, **options), mode=mode), count)
    images = np.concatenate([np.asarray(features["image"]) for features, _ in found])
    labels = [] if found[0][1] is None else np.concatenate([labels for _, labels in found])
    return images, labels


def pixels(folder: Path, mode: str = "RGB") -> np.ndarray:
    images = [Image.open(path).convert(mode) for path in sorted(folder.glob("*/*"))]
    return np.stack([np.asarray(image, np.float32) for image in images])


def test_pixels_are_those_pil_reads_and_labels_are_the_folders(folder: Path) -> None:
    images, labels = read(folder)
    assert images.dtype == np.float64 or images.dtype == np.float32
    assert (images == pixels(folder)).all()
    assert labels.tolist() == [0] * EACH + [1] * EACH


def test_element_spec(folder: Path) -> None:
    given = call(image_folder_input_fn(folder, (6, 8), 4))
    features, labels = given.element_spec
    assert features == {"image": tf.TensorSpec([4, 6, 8, 3], tf.float32)}
    assert labels == tf.TensorSpec([4], tf.int64)


def test_rescaled_and_with_an_alpha_channel(folder: Path) -> None:
    images, _ = read(folder, rescale=1 / 255, color_mode="rgba")
    np.testing.assert_allclose(images, pixels(folder, "RGBA") / 255, atol=1e-6)


@pytest.mark.parametrize("ending", ["jpg", "bmp", "gif"])
def test_other_formats_of_one_colour(tmp_path: Path, ending: str) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (9, 9), (200, 100, 50)).save(tmp_path / "a" / f"1.{ending}")
    images, _ = read(tmp_path)
    np.testing.assert_allclose(images[0, 3, 3], [200, 100, 50], atol=3)


def test_resizing_halves_like_a_mean_of_four(folder: Path) -> None:
    images, _ = read(folder, image_size=(HEIGHT // 2, WIDTH // 2))
    whole = pixels(folder)
    expected = whole.reshape(-1, HEIGHT // 2, 2, WIDTH // 2, 2, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(images, expected, atol=1e-3)


def test_one_hot_labels_and_none(folder: Path) -> None:
    _, labels = read(folder, label_mode="categorical")
    assert labels.tolist() == [[1.0, 0.0]] * EACH + [[0.0, 1.0]] * EACH
    images, labels = read(folder, label_mode=None)
    assert labels == [] and len(images) == 2 * EACH


def test_images_without_classes(folder: Path) -> None:
    images, _ = read(folder / "cat", label_mode=None)
    assert (images == pixels(folder)[:EACH]).all()


def test_named_classes_only_in_their_order(folder: Path) -> None:
    (folder / "emu").mkdir()
    input_fn = image_folder_input_fn(folder, class_names=["dog", "cat"])
    assert input_fn.class_names == ("dog", "cat")
    _, labels = read(folder, class_names=["dog", "cat"])
    assert sorted(labels) == [0] * EACH + [1] * EACH
    images, _ = read(folder, class_names=["dog"])
    assert (images == pixels(folder)[EACH:]).all()


# ------------------------------------------------------------------ order and split


def keys(images: np.ndarray) -> list[bytes]:
    return [image.astype(np.uint8).tobytes() for image in images]


def test_training_sees_every_image_once_per_epoch_in_new_orders(folder: Path) -> None:
    everything = sorted(keys(pixels(folder)))
    images, _ = read(folder, mode="train", batch_size=2, count=10)
    first, second = keys(images)[:10], keys(images)[10:]
    assert sorted(first) == sorted(second) == everything
    assert first != second


def test_split_holds_back_the_same_images_of_every_class(folder: Path) -> None:
    options = {"validation_split": 0.4, "shuffle": False, "num_epochs": 1}
    training, labels = read(folder, mode="train", **options)
    assert len(labels) == 6 and sum(labels) == 3
    held_back, labels = read(folder, mode="eval", **options)
    assert len(labels) == 4 and sum(labels) == 2
    assert sorted(keys(training) + keys(held_back)) == sorted(keys(pixels(folder)))
    named, _ = read(folder, mode="train", subset="validation", **options)
    assert keys(named) == keys(held_back)


def test_seed_changes_the_split(folder: Path) -> None:
    parts = {tuple(keys(read(folder, validation_split=0.4, seed=seed)[0])) for seed in range(1, 6)}
    assert len(parts) > 1


@pytest.mark.parametrize("pipelines", [2, 3])
def test_shares_of_input_pipelines(folder: Path, pipelines: int) -> None:
    found = []
    for i in range(pipelines):
        context = tf.distribute.InputContext(pipelines, i, pipelines)
        input_fn = image_folder_input_fn(folder, (HEIGHT, WIDTH))
        [(features, _)] = batches(call(input_fn, mode="eval", input_context=context))
        found += keys(np.asarray(features["image"]))
    assert sorted(found) == sorted(keys(pixels(folder)))


@pytest.mark.parametrize("pipelines", [2, 3])
def test_shares_are_whole_though_each_pipeline_draws_an_order_of_its_own(
    folder: Path, pipelines: int
) -> None:
    found = []
    for i in range(pipelines):
        tf.random.set_seed(i)
        context = tf.distribute.InputContext(pipelines, i, pipelines)
        input_fn = image_folder_input_fn(folder, (HEIGHT, WIDTH), num_epochs=1)
        [(features, _)] = batches(call(input_fn, mode="train", input_context=context))
        found += keys(np.asarray(features["image"]))
    assert sorted(found) == sorted(keys(pixels(folder)))


# ------------------------------------------------------------------ augmentation


def in_order(folder: Path, **options: Any) -> np.ndarray:
    return read(folder, mode="train", shuffle=False, num_epochs=2, **options)[0]


def test_flip_mirrors_some_images_and_differs_between_epochs(folder: Path) -> None:
    tf.random.set_seed(1)
    images, plain = in_order(folder, augment="flip"), np.tile(pixels(folder), (2, 1, 1, 1))
    mirrored = plain[:, :, ::-1]
    same = (images == plain).all(axis=(1, 2, 3))
    flipped = (images == mirrored).all(axis=(1, 2, 3))
    assert (same ^ flipped).all() and same.any() and flipped.any()
    assert (same[:10] != same[10:]).any()


def test_evaluation_is_not_augmented(folder: Path) -> None:
    images, _ = read(folder, augment={"flip": True, "brightness": 0.5})
    assert (images == pixels(folder)).all()


def test_all_changes_stay_within_the_values_of_an_image(folder: Path) -> None:
    everything = {
        "flip": "both",
        "crop": 0.3,
        "brightness": 0.5,
        "contrast": (0.5, 2.0),
        "saturation": (0.5, 2.0),
        "hue": 0.2,
    }
    images = in_order(folder, augment=everything, rescale=1 / 255)
    assert images.min() >= -1e-5 and images.max() <= 1 + 1e-5
    assert not np.allclose(images[:10], pixels(folder) / 255, atol=0.05)


def test_seed_repeats_the_changes(folder: Path) -> None:
    first = in_order(folder, augment={"brightness": 0.5}, seed=4)
    assert (first == in_order(folder, augment={"brightness": 0.5}, seed=4)).all()
    assert (first != in_order(folder, augment={"brightness": 0.5}, seed=5)).any()


def test_function_of_the_user(folder: Path) -> None:
    images = in_order(folder, augment=lambda image, seed: 255.0 - image)
    assert (images[:10] == 255 - pixels(folder)).all()


# ------------------------------------------------------------------ faults


@pytest.fixture
def broken(folder: Path) -> Path:
    (folder / "cat" / "2.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut")
    (folder / "dog" / "9.png").write_bytes(b"")
    return folder


def test_image_that_cannot_be_read_is_named(broken: Path) -> None:
    fault = read_fault(call(image_folder_input_fn(broken), mode="eval"))
    assert isinstance(fault, InputError)
    assert f"{broken}/cat/2.jpg cannot be read as an image: " in str(fault)
    assert "on_error='skip'" in str(fault)


def test_empty_image_is_called_empty(folder: Path) -> None:
    (folder / "dog" / "9.png").write_bytes(b"")
    fault = read_fault(call(image_folder_input_fn(folder), mode="eval"))
    assert "dog/9.png is empty (0 bytes)" in str(fault)


def test_images_that_cannot_be_read_are_skipped_and_counted(broken: Path) -> None:
    input_fn = image_folder_input_fn(broken, (HEIGHT, WIDTH), on_error="skip")
    given = call(input_fn, mode="eval")
    [(features, labels)] = batches(given)
    good = [p for p in sorted(broken.glob("*/*")) if p.name not in ("2.jpg", "9.png")]
    expected = np.stack([np.asarray(Image.open(path), np.float32) for path in good])
    assert (np.asarray(features["image"]) == expected).all()
    assert labels == [0] * EACH + [1] * EACH
    [said] = skipped(given)
    assert said.startswith(f"Skipped 2 of 12 images of {broken}: first {broken}/cat/2.jpg cannot")


def test_not_one_readable_image_is_an_error_also_when_skipping(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"no")
    with pytest.raises(InputError, match=r"none of the 1 images of .* can be read: .*1.png"):
        image_folder_input_fn(tmp_path, on_error="skip")(mode="train")


def test_image_removed_while_reading(folder: Path) -> None:
    given = call(image_folder_input_fn(folder), mode="eval")
    (folder / "dog" / "3.png").unlink()
    assert "dog/3.png is no longer there" in str(read_fault(given))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": ["cat", "cow"]}, "'cow', but .* no such folder; .*: 'cat', 'dog'"),
        ({"label_mode": "binary"}, "label_mode must be one of 'int', .*given: 'binary'"),
        ({"color_mode": "hsv"}, "color_mode must be one of 'rgb', .*given: 'hsv'"),
        ({"image_size": 5}, r"image_size must be a pair \(height, width\), given: 5"),
        ({"subset": "training"}, "subset='training' needs validation_split"),
        ({"validation_split": 2}, "validation_split must be between 0 and 1, given: 2"),
        ({"validation_split": 0.01}, "no image of .* is left for validation"),
        ({"augment": "spin"}, "augment must be a function .* a dict of flip, .*given: 'spin'"),
        ({"augment": {"flip": "up"}}, r"augment\['flip'\] must be True, .*given: 'up'"),
        ({"augment": {"contrast": 2}}, r"augment\['contrast'\] must be a pair .*given: 2"),
        ({"augment": {"hue": 3}}, r"augment\['hue'\] must be a number between .*given: 3"),
    ],
)
def test_wrong_arguments(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        image_folder_input_fn(folder, **options)(mode="eval")


def test_folders_that_hold_no_images(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no folders, and the folders are the classes"):
        image_folder_input_fn(tmp_path)(mode="eval")
    with pytest.raises(InputError, match=r"no images \(.jpg, .*\) in '"):
        image_folder_input_fn(tmp_path, label_mode=None)(mode="eval")
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match=r"in the class folder\(s\) 'a' of"):
        image_folder_input_fn(tmp_path)(mode="eval")
    with pytest.raises(InputError, match=r"nowhere' does not exist"):
        image_folder_input_fn(tmp_path / "nowhere")(mode="eval")
