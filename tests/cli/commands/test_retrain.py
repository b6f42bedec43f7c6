"""`estimand retrain` and `estimand label` on generated images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import estimand as est
from estimand.cli.main import main
from tests.bridge.images import network, write_images


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, ["--verbose", *map(str, arguments)])


@pytest.fixture(scope="module")
def retrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retrain")
    write_images(folder / "images")
    network().save(folder / "base.keras")
    done = retrain(folder)
    assert done.exit_code == 0, done.output
    (folder / "output").write_text(done.output)
    return folder


def retrain(folder: Path, *more: Any) -> Any:
    paths = [f"--{name}={folder / where}" for name, where in PATHS.items()]
    return run("retrain", *paths, "--steps", 150, "--learning-rate", 0.05, *more)


PATHS = {"images": "images", "base": "base.keras", "out": "out"}


@pytest.mark.slow
def test_it_tells_what_it_does(retrained: Path) -> None:
    output = (retrained / "output").read_text()
    assert "30 images of 3 classes" in output
    assert "training on 27 of them; 30 bottlenecks were new" in output
    assert "step 150: accuracy 1.000 on 3 held-back images" in output
    assert f"estimand label --model {retrained / 'out'}" in output


@pytest.mark.slow
def test_the_labels_are_the_folders(retrained: Path) -> None:
    assert (retrained / "out" / "labels.txt").read_text() == "blue\ngreen\nred\n"


@pytest.mark.slow
def test_label_names_the_class_of_an_image(retrained: Path) -> None:
    done = run("label", "--model", retrained / "out", retrained / "images/green/3.png", "--top", 2)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("green ")
    assert 0.5 < float(lines[0].split()[1]) <= 1


@pytest.mark.slow
def test_label_takes_several_images_and_gives_json(retrained: Path) -> None:
    images = [retrained / "images/red/0.jpg", retrained / "images/blue/1.png"]
    done = run("label", "--json", "--model", retrained / "out", *images)
    found = [json.loads(line) for line in done.output.splitlines()]
    assert [one["image"] for one in found] == [str(path) for path in images]
    assert [max(one["classes"], key=one["classes"].get) for one in found] == ["red", "blue"]


@pytest.mark.slow
def test_the_export_takes_bytes_and_agrees_with_the_keras_model(retrained: Path) -> None:
    paths = sorted((retrained / "images").glob("*/*.png"))
    with est.load_model(retrained / "out" / "export") as model:
        answer = model({"image_bytes": [path.read_bytes() for path in paths]})
    assert [name.decode() for name in answer["class"]] == [path.parent.name for path in paths]
    whole = keras.models.load_model(retrained / "out" / "model.keras")
    read = [keras.utils.img_to_array(keras.utils.load_img(path)) for path in paths]
    images = np.stack([tf.image.resize(image, (12, 12)) for image in read])
    expected = whole.predict(images / 127.5 - 1.0, verbose=0)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-4)


@pytest.mark.slow
def test_the_same_command_again_goes_on(retrained: Path) -> None:
    done = retrain(retrained, "--steps", 160)
    assert done.exit_code == 0, done.output
    assert "0 bottlenecks were new" in done.output
    assert "step 160:" in done.output


@pytest.mark.slow
def test_a_directory_of_another_training_is_left_alone(retrained: Path, tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=2)
    (tmp_path / "images" / "red").rename(tmp_path / "images" / "rot")
    done = run(
        "retrain", "--images", tmp_path / "images", "--base", retrained / "base.keras",
        "--out", retrained / "out",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "was retrained with other classes" in done.output
    assert "'rot'" in done.output


def test_one_class_is_not_enough(tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=1)
    for name in ("red", "blue"):
        for path in (tmp_path / "images" / name).iterdir():
            path.unlink()
        (tmp_path / "images" / name).rmdir()
    (tmp_path / "base.keras").touch()
    done = retrain(tmp_path)
    assert done.exit_code == 1
    assert "has one class folder only: 'green'" in done.output


def test_a_network_that_is_not_there(tmp_path: Path) -> None:
    write_images(tmp_path / "images", each=1)
    done = retrain(tmp_path)
    assert done.exit_code == 2
    assert f"'{tmp_path}/base.keras' does not exist" in done.output


def test_label_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"")
    done = run("label", "--model", tmp_path, tmp_path / "image.png")
    assert done.exit_code == 2
    assert str(tmp_path) in done.output


def test_label_without_an_image(tmp_path: Path) -> None:
    done = run("label", "--model", tmp_path, tmp_path / "none.png")
    assert done.exit_code == 2
    assert "There is no image" in done.output


@pytest.mark.slow
def test_label_of_what_is_no_image(retrained: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    done = run("label", "--model", retrained / "out", tmp_path / "text.png")
    assert done.exit_code == 1
    told = "text.png cannot be read as an image: it is none of JPEG, PNG, GIF, BMP.\n"
    assert done.output.endswith(told)
