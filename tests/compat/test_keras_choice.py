"""Which Keras a program gets."""

from __future__ import annotations

from pathlib import Path

import pytest

import estimand as est
from estimand.compat import keras_choice


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("tf.keras.optimizers.SGD(lr=0.1)", "SGD(lr=...)"),
        ("tf.keras.optimizers.SGD(0.1, decay=1e-6)", "SGD(decay=...)"),
        (
            "optimizer.iterations = tf.compat.v1.train.get_global_step()",
            "optimizer.iterations = ...",
        ),
        ("updates = model.get_updates_for(None)", ".get_updates_for"),
        ("self.w = self.add_weight('w', shape=[2])", "add_weight('name', ...)"),
        ("tf.keras.backend.get_session()", "keras.backend.get_session"),
        ("from tensorflow.python.keras import layers", "import tensorflow.python.keras"),
        ("tf.contrib.layers.flatten(x)", "tf.contrib beside tf.keras"),
    ],
)
def test_what_only_keras_2_runs_is_found(line: str, sign: str) -> None:
    source = f"import tensorflow as tf\nkeras = tf.keras\n{line}\n"
    assert keras_choice.signs_of_keras_2(source) == [keras_choice.Sign(3, sign)]


def test_what_both_run_is_no_sign() -> None:
    source = "import tensorflow as tf\ntf.keras.optimizers.SGD(0.1)\nself.add_weight(name='w')\n"
    assert keras_choice.signs_of_keras_2(source) == []
    assert keras_choice.signs_of_keras_2("step.iterations = 3\nSGD(lr=1)") == []


def test_modules_beside_the_script_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from nets import small\n")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "__init__.py").write_text("")
    module = tmp_path / "nets" / "small.py"
    module.write_text("from tensorflow import keras\nkeras.optimizers.Adam(lr=1e-3)\n")
    ((path, sign),) = keras_choice.signs_in_program(tmp_path / "train.py")
    assert (path, sign.line) == (str(module.resolve()), 2)


def test_what_only_looks_for_contrib_is_no_sign() -> None:
    source = "import tensorflow as tf\ntf.keras.layers.Dense(1)\nif hasattr(tf, 'contrib'):\n"
    assert keras_choice.signs_of_keras_2(source + "    tf.contrib.layers.flatten(x)\n") == []


def test_a_package_that_is_installed_elsewhere_is_read(tmp_path: Path) -> None:
    package, elsewhere = tmp_path / "installed" / "nets", tmp_path / "work"
    (package / "bin").mkdir(parents=True)
    elsewhere.mkdir()
    for folder in (package, package / "bin"):
        (folder / "__init__.py").write_text("")
    (package / "bin" / "main.py").write_text("import other\nfrom nets import small\n")
    for module in (package / "small.py", package.parent / "other.py"):
        module.write_text("from tensorflow import keras\nkeras.optimizers.Adam(lr=1e-3)\n")
    found = keras_choice.signs_in_program(package / "bin" / "main.py", str(elsewhere))
    assert [path for path, _ in found] == [str((package / "small.py").resolve())]


def test_there_are_two() -> None:
    with pytest.raises(est.errors.ConfigError, match="Give 2, 3 or None"):
        keras_choice.choose(4, None)
