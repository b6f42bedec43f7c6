"""Rows of JSON become the arrays that NumPy makes of them, whichever way they take."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
import pytest

from estimand.serving.json import input as json_input
from estimand.serving.json.slots import PlainSignature, PlainSlot
from estimand.serving.status import StatusError

_SLOT = PlainSlot("x", np.dtype(np.float32), "DT_FLOAT")
_SIGNATURE = PlainSignature("serving_default", {"x": _SLOT})
_LARGEST = float(np.finfo(np.float32).max)


def _array_of(rows: Any) -> np.ndarray:
    body = json.dumps({"instances": rows}).encode()
    (array,), _ = json_input.predict_inputs(json_input.parse(body), _SIGNATURE, body)
    return array


@pytest.mark.parametrize(
    "rows",
    [
        [[0.1, -2.5, 3e-40]],
        [[0.1, 2], [3, 4]],
        [[1, 0.1]],  # an integer first
        [[0.5, 2**30 + 1]],
        [[_LARGEST, -_LARGEST, 1e-300]],
        [[float("nan"), float("inf"), 1.5]],
        [[1.5, float("-inf")]],
        [0.5, 1.5],
        [[[0.5], [1.5]]],
        [[0.25] * 5000],
        [[], []],
    ],
    ids=str,
)
def test_rows_are_what_numpy_makes_of_them(rows: Any) -> None:
    array = _array_of(rows)
    oracle = np.array(rows, np.float64).astype(np.float32)
    assert array.dtype == np.float32
    assert array.shape == oracle.shape
    np.testing.assert_array_equal(array, oracle)


def test_each_float_is_rounded_as_numpy_does() -> None:
    numbers = random.Random(1)
    with np.errstate(over="ignore"):
        doubles = [struct.unpack("d", numbers.randbytes(8))[0] for _ in range(4000)]
        fitting = [x for x in doubles if np.isfinite(np.float64(x).astype(np.float32))]
    np.testing.assert_array_equal(_array_of([fitting])[0], np.array(fitting).astype(np.float32))


@pytest.mark.parametrize(
    "rows",
    [
        [[0.5, 1e39]],
        [[0.5, -(10**60)]],
        [[0.5, None]],
        [[0.5, True]],
        [[0.5, "1"]],
        [[0.5, [1.5]]],
        [[0.5, 1.5], [0.5]],
        [[0.5], 1.5],
        [[2**24 + 1, 1]],
    ],
    ids=str,
)
def test_what_is_no_array_of_floats_is_refused(rows: Any) -> None:
    with pytest.raises(StatusError):
        _array_of(rows)
