"""Programs import at their top what only some of their ways need."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from estimand.compat.install import install, uninstall


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    install()
    yield
    uninstall()


def run(tmp_path: Path, program: str) -> dict[str, Any]:
    path = tmp_path / "program.py"
    path.write_text(program)
    return runpy.run_path(str(path))


PROGRAM = """
from tensorflow.contrib import ffmpeg
from tensorflow.contrib import quantize as contrib_quantize, layers
from tensorflow.contrib.quantize.python import fold_batch_norms
import tensorflow.contrib.tensorrt as trt
from tensorflow.contrib.opt import (
    LazyAdamOptimizer,
    ElasticAverageOptimizer,
)

def quantized():
    return contrib_quantize.experimental_create_training_graph()

def folded(graph):
    return fold_batch_norms.FoldBatchNorms(graph)

def elastic():
    return ElasticAverageOptimizer(0.1)

def derived():
    class Mine(ElasticAverageOptimizer):
        pass

flat = layers.flatten
is_elastic = isinstance(LazyAdamOptimizer(), ElasticAverageOptimizer)
"""


def test_what_is_imported_and_not_used_need_not_be_there(tmp_path: Path) -> None:
    program = run(tmp_path, PROGRAM)
    assert callable(program["flat"])
    assert program["is_elastic"] is False


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("quantized", r"contrib.quantize is not offered; in its place: .*model-optimization"),
        ("elastic", r"contrib.opt' has no attribute 'ElasticAverageOptimizer'. It has: .*LazyAdam"),
        ("derived", r"has no attribute 'ElasticAverageOptimizer'"),
    ],
)
def test_what_is_used_is_told_then(tmp_path: Path, use: str, told: str) -> None:
    with pytest.raises(AttributeError, match=told):
        run(tmp_path, PROGRAM)[use]()


def test_a_name_of_a_file_that_is_not_there_is_told_when_it_is_used(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"contrib\.quantize is not offered"):
        run(tmp_path, PROGRAM)["folded"](None)


def test_a_program_that_can_do_without_is_told_at_once(tmp_path: Path) -> None:
    program = run(
        tmp_path,
        """
try:
    from tensorflow.contrib import quantize
except ImportError:
    quantize = None
try:
    from tensorflow.contrib.opt import ElasticAverageOptimizer
except ImportError:
    ElasticAverageOptimizer = None
""",
    )
    assert program["quantize"] is None
    assert program["ElasticAverageOptimizer"] is None


def test_a_part_that_never_was_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"contrib\.quantise is not offered"):
        run(tmp_path, "from tensorflow.contrib import quantise")
