"""Calling a loaded model: what it takes, what it refuses, which version it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError, NoModelError
from estimand.export import versions
from estimand.export.loaded.arrays import TensorInfo, checked_array
from tests.export.conftest import X, expected, raw_receiver_fn


@pytest.fixture(scope="module")
def path(linear: est.Estimator, tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("loading")
    return linear.export_saved_model(base, raw_receiver_fn).decode()


@pytest.mark.parametrize("convert", [np.float64, tf.constant, lambda x: x.tolist(), np.float16])
def test_whatever_can_be_an_array_is_taken(linear: est.Estimator, path: str, convert: Any) -> None:
    with est.load_model(path) as model:
        answer = model({"x": convert(X)})["y"]
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, expected(linear), atol=5e-3)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, r"lacks \['x'\]. It takes: x \(float32, \[\?, 3\]\)"),
        ({"x": X, "y": 1}, r"does not take \['y'\]"),
        ({"x": X[0]}, r"shape \[\?, 3\], but was given \[3\]. For one row"),
        ({"x": X[:, :2]}, r"was given \[6, 2\]"),
        ({"x": [["a", "b", "c"]]}, "takes float32, but was given strings"),
        ({"x": [[1.0, 2.0, 3.0], [1.0]]}, "no rectangular array"),
        ({"x": np.zeros([1, 3], np.complex64)}, "takes float32, but was given complex64"),
    ],
)
def test_what_does_not_fit_is_named(path: str, inputs: dict[str, Any], text: str) -> None:
    with est.load_model(path) as model, pytest.raises(InputError, match=text):
        model(inputs)


def test_inputs_without_names_are_refused(path: str) -> None:
    with est.load_model(path) as model, pytest.raises(InputError, match=r"model\(x=\.\.\.\)"):
        model(X)


@pytest.mark.parametrize(
    ("dtype", "given", "taken"),
    [
        ("int32", [1.0, 2.0], [1, 2]),
        ("int64", np.array([3], np.uint8), [3]),
        ("float32", [1, 2], [1.0, 2.0]),
        ("float32", [True], [1.0]),
        ("bool", [True], [True]),
        ("string", ["a", "ü"], [b"a", "ü".encode()]),
        ("string", [b"a\x00"], [b"a\x00"]),
        ("string", np.array([b"ab"]), [b"ab"]),
    ],
)
def test_values_are_converted_where_nothing_is_lost(dtype: str, given: Any, taken: Any) -> None:
    array = checked_array(TensorInfo("x", dtype, (None,), "x:0"), given)
    assert array.tolist() == taken


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("int32", [1.5]),
        ("int32", [2**40]),
        ("int32", [float("nan")]),
        ("uint8", [-1]),
        ("bool", [1]),
        ("string", [1]),
        ("float32", [None]),
    ],
)
def test_values_that_would_change_are_refused(dtype: str, given: Any) -> None:
    with pytest.raises(InputError, match="Input 'x' takes"):
        checked_array(TensorInfo("x", dtype, (None,), "x:0"), given)


def test_unequal_numbers_of_rows_are_named(linear: est.Estimator, base: Path) -> None:
    def receiver_fn() -> Any:
        a = tf.compat.v1.placeholder(tf.float32, [None, 3], name="a")
        b = tf.compat.v1.placeholder(tf.float32, [None, 3], name="b")
        return est.export.ServingInputReceiver({"x": a + b}, {"a": a, "b": b})

    linear.export_saved_model(base, receiver_fn)
    with est.load_model(base) as model, pytest.raises(InputError, match=r"a: 6, b: 2"):
        model(a=X, b=X[:2])


# Which model


def test_the_newest_version_of_a_directory_is_loaded(linear: est.Estimator, base: Path) -> None:
    written = [linear.export_saved_model(base, raw_receiver_fn).decode() for _ in range(2)]
    (base / "temp-9999999999").mkdir()
    (base / "9999999999").mkdir()  # no model in it
    with est.load_model(base) as model:
        assert model.directory == written[1]


def test_a_loaded_version_is_not_collected(linear: est.Estimator, base: Path) -> None:
    written = [linear.export_saved_model(base, raw_receiver_fn).decode() for _ in range(2)]
    with est.load_model(written[0]):
        versions.collect_garbage(base, keep=1)
        assert os.path.exists(written[0])
    versions.collect_garbage(base, keep=1)
    assert not os.path.exists(written[0])


def test_a_directory_without_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(NoModelError, match=r"no exported model.*It has: \['notes'\]"):
        est.load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        est.load_model(tmp_path / "nowhere")


def test_a_damaged_model_is_named(path: str, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "copy")
    data = copy / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-5])
    with pytest.raises(NoModelError, match="is damaged"):
        est.load_model(copy)
    (copy / "saved_model.pb").write_bytes(b"not a model")
    with pytest.raises(NoModelError, match=r"saved_model\.pb is no SavedModel, or damaged"):
        est.load_model(copy)


def test_other_tags_are_named(path: str) -> None:
    with pytest.raises(NoModelError, match=r"tags \['train'\]; it has those of \[\['serve'\]\]"):
        est.load_model(path, tags=["train"])


def test_a_model_of_tensorflow_2_loads_too(tmp_path: Path) -> None:
    class Doubler(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], name="x")])
        def __call__(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"y": 2 * x}

    doubler = Doubler()
    tf.saved_model.save(doubler, tmp_path, signatures={"serving_default": doubler.__call__})
    with est.load_model(tmp_path) as model:
        assert model(x=[1, 2])["y"].tolist() == [2, 4]
        assert model.card == {}


def test_threads_share_a_model(linear: est.Estimator, path: str) -> None:
    wanted, wrong = expected(linear), []
    with est.load_model(path) as model:

        def ask(row: int) -> None:
            for _ in range(20):
                if not np.allclose(model(x=X[row : row + 1])["y"], wanted[row], rtol=1e-4):
                    wrong.append(row)

        threads = [threading.Thread(target=ask, args=(row,)) for row in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_loading_needs_nothing_of_training() -> None:
    program = (
        "import sys, estimand; estimand.load_model\n"
        "print([m for m in sys.modules if m.startswith(('estimand.engine', 'estimand.hooks'))])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stdout.strip() == "[]", finished.stderr
