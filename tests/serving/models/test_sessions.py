"""Which executor a model gets, and loops that would end the process if they were folded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.serving.models.servable import Servable
from estimand.serving.models.sessions import LoadOptions
from tests import forked
from tests.serving import making

SINGLE = "SINGLE_THREADED_EXECUTOR"
ROWS = {"x": tf.TensorSpec([None], tf.float32)}


def answer(directory: Path, x: float) -> float:
    servable = Servable(str(directory), LoadOptions())
    try:
        signature = servable.signatures["serving_default"]
        program = servable.program(
            tuple(signature.inputs.values()), tuple(signature.outputs.values())
        )
        return program.run([np.float32([x])])[0].item()
    finally:
        servable.close()


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The executors of all sessions that are made."""
    made: list[str] = []
    make = tf.compat.v1.Session

    def session(**more: Any) -> Any:
        made.append(more["config"].experimental.executor_type)
        return make(**more)

    monkeypatch.setattr(tf.compat.v1, "Session", session)
    return made


def write_double(directory: Path) -> None:
    making.write_function(directory, lambda x: {"y": x * 2.0}, ROWS)


def write_double_on_gpu(directory: Path) -> None:
    def double(x):
        with tf.device("/device:GPU:0"):
            return {"y": x * 2.0}

    making.write_function(directory, double, ROWS)


def write_double_on_gpu_inside_a_function(directory: Path) -> None:
    @tf.function
    def inner(x):
        with tf.device("/GPU:1"):
            return x * 2.0

    making.write_function(directory, lambda x: {"y": inner(x)}, ROWS)


def test_on_cpus_the_single_threaded_executor_is_taken(tmp_path, sessions) -> None:
    write_double(tmp_path)
    assert answer(tmp_path, 4.0) == 8.0
    assert sessions == [SINGLE]


def test_on_a_named_cpu_too(tmp_path, sessions) -> None:
    def double(x):
        with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
            return {"y": x * 2.0}

    making.write_function(tmp_path, double, ROWS)
    assert answer(tmp_path, 4.0) == 8.0
    assert sessions == [SINGLE]


@pytest.mark.parametrize("kind", ["GPU", "TPU", "NPU"])
def test_where_another_device_is_visible_the_ordinary_executor_is_taken_at_once(
    tmp_path, sessions, monkeypatch, kind
) -> None:
    devices = [SimpleNamespace(device_type=one) for one in ("CPU", kind)]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda: devices)
    write_double(tmp_path)
    assert answer(tmp_path, 4.0) == 8.0
    assert sessions == [""]


@pytest.mark.parametrize("write", [write_double_on_gpu, write_double_on_gpu_inside_a_function])
def test_a_model_with_operations_on_a_gpu_gets_the_ordinary_executor_at_once(
    tmp_path, sessions, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    assert answer(tmp_path, 4.0) == 8.0  # on the CPU, where there is no other
    assert sessions == [""]


def test_a_model_with_reference_variables_gets_the_ordinary_executor_at_once(
    models: Path, sessions
) -> None:
    assert answer(models / "half_plus_two" / "00000123", 2.0) == 3.0
    assert sessions == [""]


_LOOPS = """
import sys
import tensorflow as tf
from pathlib import Path
from tests.serving import making
from tests.serving.models.test_sessions import ROWS, answer

TURNS = 20_000


def count(start=0, turns=TURNS):
    return tf.while_loop(lambda i: i < start + turns, lambda i: [i + 1], [tf.constant(start)])[0]


def plain(x):
    return count()


def in_a_branch(x):
    return tf.cond(tf.constant(1.0) * 2.0 > 1.0, count, lambda: 3)


def in_a_function(x):
    return tf.function(count)()


def of_loops(x):
    body = lambda i: [tf.while_loop(lambda j: j < i + 1, lambda j: [j + 1], [i])[0]]
    return tf.while_loop(lambda i: i < TURNS, body, [tf.constant(0)])[0]


def over_elements(x):
    return tf.reduce_sum(tf.map_fn(lambda one: one // one, tf.range(1, TURNS + 1)))


for made in (plain, in_a_branch, in_a_function, of_loops, over_elements):
    path = Path(sys.argv[1], made.__name__)
    making.write_function(path, lambda x: {"y": x + tf.cast(made(x), tf.float32)}, ROWS)
    print(made.__name__, answer(path, 1.0), flush=True)
"""


def test_long_loops_that_do_not_depend_on_the_input_are_answered(tmp_path: Path) -> None:
    ended = forked.run(["-c", _LOOPS, str(tmp_path)])
    names = ("plain", "in_a_branch", "in_a_function", "of_loops", "over_elements")
    assert ended.stdout.splitlines() == [f"{name} 20001.0" for name in names], ended.stderr[-500:]
    assert ended.returncode == 0
