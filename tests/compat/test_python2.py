"""Programs that were written for TensorFlow 1 on Python 2, run by `estimand run`."""

from __future__ import annotations

import itertools
from pathlib import Path

from estimand.compat.python2 import NAMES
from tests import forked

PROGRAM = """
import sys
reload(sys)
sys.setdefaultencoding("utf-8")
import cPickle as pickle
from itertools import izip
try:
    import Queue
except ImportError:
    import queue as Queue
import tensorflow as tf
import beside

print(pickle.loads(pickle.dumps(list(izip("a", "b")))), Queue.__name__)
layers = map(int, "8,4".split(","))
for size in layers:
    tf.logging.info(size)
for i in xrange(len(layers)):
    print(layers[i], isinstance(u"x", unicode), isinstance("x", basestring))
print(zip(layers, "ab"), len(filter(None, [0, 1, 2])), beside.sizes()[0])
"""
BESIDE = """
import os

def sizes():
    return map(int, ["3"])
"""


def test_a_program_finds_the_names_of_python_2(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = forked.run(["-m", "estimand", "run", tmp_path / "program.py"])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "[('a', 'b')] queue",
        "8 True True",
        "4 True True",
        "[(8, 'a'), (4, 'b')] 2 3",
    ]


def test_a_program_for_tensorflow_2_keeps_the_names_of_python_3(tmp_path: Path) -> None:
    program = "import tensorflow as tf\ntf.function\nprint(type(map(int, [])).__name__)\n"
    (tmp_path / "program.py").write_text(program)
    done = forked.run(["-m", "estimand", "run", tmp_path / "program.py"])
    assert done.stdout.strip() == "map", done.stderr[-2000:]


def test_what_may_have_no_end_stays_lazy() -> None:
    counted = NAMES["map"](str, itertools.count())
    assert [next(counted), next(counted)] == ["0", "1"]
    assert list(itertools.islice(NAMES["zip"]("ab", itertools.count()), 1)) == [("a", 0)]


def test_the_first_that_fits_is_still_taken_by_next() -> None:
    assert next(NAMES["filter"](None, [0, 5, 6])) == 5
    assert next(NAMES["filter"](None, [0]), "none") == "none"
