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
