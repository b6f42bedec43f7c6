"""`tf.contrib` is there for files that use it, and not for those that look whether it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forked

LIBRARY = """
import tensorflow as tf
import tensorflow.compat.v1 as tf1

OLD = [hasattr(tf, "contrib"), hasattr(tf1, "contrib"), "contrib" in dir(tf)]
if hasattr(tf, "contrib"):
    flatten = tf.contrib.layers.flatten
elif tf.__version__.startswith("1."):
    flatten = tf.contrib.layers.flatten
else:
    flatten = tf.keras.layers.Flatten()
"""
PROGRAM = """
import estimand; estimand.install()
import {face} as tf
import library

print(tf.contrib.layers.flatten(tf.ones([2, 3, 4])).shape)
print(library.OLD, library.flatten.__class__.__name__)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "library.py").write_text(LIBRARY)
    return tmp_path


@pytest.mark.parametrize("face", ["tensorflow", "tensorflow.compat.v1"])
@pytest.mark.parametrize("command", [[], ["-m", "estimand", "run"]], ids=["install", "run"])
def test_a_program_uses_contrib_and_a_library_does_not_find_it(
    face: str, command: list[str], folder: Path
) -> None:
    program = folder / "program.py"
    program.write_text(PROGRAM.format(face=face))
    done = forked.run([*command, program])
    assert done.returncode == 0, done.stderr[-2000:]
    assert "(2, 12)" in done.stdout
    assert "[False, False, False] Flatten" in done.stdout
