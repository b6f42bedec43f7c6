"""TFRecord files: write, read, inspect and verify them.

>>> import os, tempfile
>>> import estimand as est
>>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
>>> est.records.write(path, {"x": [1, 2, 3]}).records
3
>>> [row["x"] for row in est.records.read(path)]
[1, 2, 3]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.interpreter.lazy_names import lazy_names

# Public name -> the module where it lives. Lazily: importing this package imports no TensorFlow.
_HOME = {
    "FileReport": "estimand.inputs.records.verifying",
    "Inspection": "estimand.inputs.records.inspecting",
    "Problem": "estimand.inputs.records.verifying",
    "Schema": "estimand.inputs.records.schemas",
    "Written": "estimand.inputs.records.writing",
    "inspect": "estimand.inputs.records.inspecting",
    "parse_spec": "estimand.inputs.records.schemas",
    "read": "estimand.inputs.records.reading",
    "read_frame": "estimand.inputs.records.reading",
    "read_raw": "estimand.inputs.records.reading",
    "schema": "estimand.inputs.records.schemas",
    "verify": "estimand.inputs.records.verifying",
    "write": "estimand.inputs.records.writing",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.inputs.records.inspecting import Inspection as Inspection
    from estimand.inputs.records.inspecting import inspect as inspect
    from estimand.inputs.records.reading import read as read
    from estimand.inputs.records.reading import read_frame as read_frame
    from estimand.inputs.records.reading import read_raw as read_raw
    from estimand.inputs.records.schemas import Schema as Schema
    from estimand.inputs.records.schemas import parse_spec as parse_spec
    from estimand.inputs.records.schemas import schema as schema
    from estimand.inputs.records.verifying import FileReport as FileReport
    from estimand.inputs.records.verifying import Problem as Problem
    from estimand.inputs.records.verifying import verify as verify
    from estimand.inputs.records.writing import Written as Written
    from estimand.inputs.records.writing import write as write
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
