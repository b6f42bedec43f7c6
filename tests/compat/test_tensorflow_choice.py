"""All files of a program, or of a package, get the TensorFlow that it is written for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.compat import tensorflow_choice
from estimand.compat.install import installed
from estimand.compat.program_files import module_file
from estimand.compat.tensorflow_choice import TensorFlowChoice
from tests import forked

OLD = "import tensorflow as tf\nx = tf.placeholder(tf.float32)\n"
NEW = "import tensorflow as tf\ntf.random.set_seed(1)\n"
EITHER = "import tensorflow as tf\ndef drop(x):\n    return tf.nn.dropout(x, 0.9)\n"


@pytest.fixture(autouse=True)
def _in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tensorflow_choice, "_behave_like_v1", lambda *_: None)
    with installed():
        yield


def choice(folder: Path, v1: bool | None = None, **files: str) -> TensorFlowChoice:
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    return TensorFlowChoice(str(folder / "main.py"), str(folder), v1)


def test_a_helper_gets_that_of_the_program(tmp_path: Path) -> None:
    chosen = choice(tmp_path, main="import helper\n" + OLD, helper=EITHER)
    assert chosen.is_v1(str(tmp_path / "helper.py"))


def test_a_program_gets_that_of_its_modules(tmp_path: Path) -> None:
    chosen = choice(tmp_path, main="import model\n" + EITHER, model=OLD)
    assert chosen.is_v1(str(tmp_path / "main.py"))


def test_what_only_version_2_has_says_so(tmp_path: Path) -> None:
    chosen = choice(tmp_path, main="import new\n" + OLD, new=NEW)
    assert not chosen.is_v1(str(tmp_path / "new.py"))


def test_modules_for_another_tensorflow_do_not_count(tmp_path: Path) -> None:
    main = EITHER + "if tf.__version__ < '2':\n    import old\n"
    chosen = choice(tmp_path, main=main, old=OLD)
    assert not chosen.is_v1(str(tmp_path / "main.py"))


@pytest.mark.parametrize("v1", [True, False])
def test_a_pin_holds_for_the_program(v1: bool, tmp_path: Path) -> None:
    chosen = choice(tmp_path, v1, main=OLD, new=NEW)
    assert chosen.is_v1(str(tmp_path / "main.py")) is v1
    assert chosen.is_v1(str(tmp_path / "new.py")) is v1


@pytest.mark.parametrize(("others", "v1"), [([OLD, OLD], True), ([OLD, NEW, EITHER], False)])
def test_most_files_of_a_package_decide(others: list[str], v1: bool, tmp_path: Path) -> None:
    package, program = tmp_path / "package", tmp_path / "program"
    (package / "inner").mkdir(parents=True)
    program.mkdir()
    for folder in (package, package / "inner"):
        (folder / "__init__.py").touch()
    for number, source in enumerate(others):
        (package / f"file_{number}.py").write_text(source)
    asked = package / "inner" / "asked.py"
    asked.write_text(EITHER)
    assert choice(program, main=EITHER).is_v1(str(asked)) is v1


def test_a_program_that_leaves_tensorflow_to_a_package_gets_that_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elsewhere" / "served_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def start():\n    from . import graph\n")
    (package / "graph.py").write_text(OLD)
    monkeypatch.syspath_prepend(str(package.parent))
    behaving = []
    monkeypatch.setattr(tensorflow_choice, "_behave_like_v1", lambda *_: behaving.append(1))
    for main in (
        "import served_models\nserved_models.start()\n",
        "import served_models\n" + EITHER,
    ):
        choice(tmp_path, main=main)
        assert behaving
        behaving.clear()
    choice(tmp_path, main="import served_models\n" + NEW)
    assert not behaving


def test_layers_of_keras_in_a_module_that_is_imported_by_a_string(tmp_path: Path) -> None:
    """Spleeter names the module of its network in a configuration file."""
    (tmp_path / "network.py").write_text(
        "import tensorflow as tf\n"
        "from tensorflow.keras.layers import Conv2DTranspose\n"
        "def network(x):\n"
        "    return Conv2DTranspose(2, 3, strides=2, padding='same')(x)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import importlib\n"
        "import tensorflow as tf\n"
        "def model_fn(features, labels, mode):\n"
        "    y = importlib.import_module('network').network(features)\n"
        "    return tf.estimator.EstimatorSpec(mode, {'y': y})\n"
        "tf.logging.set_verbosity('ERROR')\n"
        "estimator = tf.estimator.Estimator(model_fn)\n"
        "zeros = lambda: tf.data.Dataset.from_tensors(tf.zeros([1, 4, 4, 1])).repeat(2)\n"
        "print(next(estimator.predict(zeros))['y'].shape)\n"
    )
    done = forked.run(["-m", "estimand", "run", str(program)])
    assert "(8, 8, 2)" in done.stdout, done.stderr[-2000:]


def test_dropout_in_a_helper_keeps_what_it_kept(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(EITHER)
    (tmp_path / "main.py").write_text(
        "import numpy as np\nimport helper\n" + OLD + "with tf.Session() as session:\n"
        "    print((session.run(helper.drop(x), {x: np.ones(10000)}) > 0).mean())\n"
    )
    done = forked.run(["-m", "estimand", "run", tmp_path / "main.py"])
    assert float(done.stdout) == pytest.approx(0.9, abs=0.02), done.stderr[-3000:]


def test_a_module_is_found_before_its_package_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise ImportError('no tf.contrib yet')")
    (tmp_path / "package" / "task.py").touch()
    monkeypatch.chdir(tmp_path)
    assert module_file("package.task") == str(tmp_path / "package" / "task.py")


def test_a_library_beside_the_program_is_told_the_version_there_is(tmp_path: Path) -> None:
    for name, inside in (("library", EITHER), ("trainer", OLD)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(
            "import tensorflow as tf\nV = tf.__version__\n"
        )
        (tmp_path / name / "other.py").write_text(inside)
    (tmp_path / "main.py").write_text(
        "import library, trainer\nprint(library.V, trainer.V)\n" + OLD
    )
    done = forked.run(["-m", "estimand", "run", tmp_path / "main.py"])
    assert done.returncode == 0, done.stderr[-2000:]
    library, trainer = done.stdout.splitlines()[-1].split()
    assert library.startswith("2.") and trainer == "1.15.5"


def test_the_version_is_that_of_the_names(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(NEW + "version = tf.__version__\n")
    (tmp_path / "main.py").write_text(
        "import new\n" + OLD + "print(tf.__version__, tf.VERSION, tf.version.VERSION)\n"
        "assert new.version.startswith('2.') and tf.version.GRAPH_DEF_VERSION > 1000\n"
    )
    done = forked.run(["-m", "estimand", "run", tmp_path / "main.py"])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "1.15.5 1.15.5 1.15.5"
