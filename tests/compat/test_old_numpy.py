"""Programs of the years before NumPy 2, run by `estimand run`."""

from __future__ import annotations

from pathlib import Path

from tests import forked

PROGRAM = """
import numpy as np
import tensorflow as tf
import beside

x = np.reshape(np.arange(6, dtype=np.float), newshape=(2, 3))
print(x.dtype, x.shape, np.quantile(x, 0.4, interpolation="lower"))
print(np.product([2, 3]), np.Inf > 1, np.in1d([1, 2], [2]).tolist(), np.asscalar(np.array(5)))
print(beside.labels().dtype)
print(np.reshape(np.arange(4), (2, 2)).tolist(), hasattr(np, "no_such_name"))
"""
BESIDE = """
import numpy as np

def labels():
    return np.zeros(3, np.int)
"""


def test_a_program_finds_the_names_that_numpy_has_dropped(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = forked.run(["-m", "estimand", "run", tmp_path / "program.py"])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "float64 (2, 3) 2.0",
        "6 True [False, True] 5",
        "int64",
        "[[0, 1], [2, 3]] False",
    ]
    said = [line for line in done.stderr.splitlines() if "put back" in line]
    assert len(said) == 1 and "np.float (program.py, line 6)" in said[0]


def test_a_library_that_uses_an_old_name_without_looking_finds_it(tmp_path: Path) -> None:
    library = tmp_path / "elsewhere"
    library.mkdir()
    (library / "library.py").write_text(
        "import numpy as np\n"
        "MOST = np.Inf\n"
        "LESS = np.quantile([1, 2], 0.5, interpolation='lower')\n"
    )
    program = tmp_path / "here" / "program.py"
    program.parent.mkdir()
    program.write_text(
        f"import sys\nsys.path.append({str(library)!r})\nimport library\n"
        "print(library.MOST, library.LESS)\n"
    )
    done = forked.run(["-m", "estimand", "run", program])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "inf 1"


def test_libraries_find_the_numpy_that_is_installed(tmp_path: Path) -> None:
    library = tmp_path / "elsewhere"
    library.mkdir()
    (library / "library.py").write_text("import numpy as np\nOLD = hasattr(np, 'float_')\n")
    program = tmp_path / "here" / "program.py"
    program.parent.mkdir()
    program.write_text(
        f"import sys\nsys.path.append({str(library)!r})\nimport library\nprint(library.OLD)\n"
    )
    done = forked.run(["-m", "estimand", "run", program])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "False"
    assert "put back" not in done.stderr


def test_predictions_that_hold_one_number_are_numbers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf\n"
        "def input_fn():\n"
        "    return tf.data.Dataset.from_tensor_slices(([[3.0], [4.0]], [1.0, 2.0])).batch(2)\n"
        "def model_fn(features, labels, mode):\n"
        "    w = tf.get_variable('w', [1], initializer=tf.ones_initializer())\n"
        "    loss = tf.reduce_sum(w) * 0.0\n"
        "    train_op = tf.assign_add(tf.train.get_global_step(), 1)\n"
        "    return tf.estimator.EstimatorSpec(mode, {'y': features * w}, loss, train_op)\n"
        f"model = tf.estimator.Estimator(model_fn, {str(tmp_path / 'model')!r})\n"
        "rows = list(model.train(input_fn).predict(input_fn))\n"
        "print(float(rows[0]['y']), int(rows[1]['y']), '%.1f %d' % (rows[0]['y'], rows[1]['y']))\n"
        "print(rows[0], float(model.get_variable_value('w')))\n"
    )
    done = forked.run(["-m", "estimand", "run", program])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["3.0 4 3.0 4", "{'y': array([3.], dtype=float32)} 1.0"]
