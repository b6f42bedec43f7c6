"""Writing the results of an evaluation as event files, for evaluators in the wild."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_log = logging.getLogger("tensorflow")


def _dict_to_str(dictionary: Mapping[str, Any]) -> str:
    """`a = 1, b = 2.5`; Summary protos, which are bytes, are left out.

    >>> _dict_to_str({"b": 2.5, "a": 1})
    'a = 1, b = 2.5'
    """
    shown = sorted((k, v) for k, v in dictionary.items() if not isinstance(v, bytes))
    return ", ".join(f"{key} = {value}" for key, value in shown)


def _write_dict_to_summary(
    output_dir: str, dictionary: Mapping[str, Any], current_global_step: int
) -> None:
    """One event with the results, at the step they belong to."""
    _log.info("Saving dict for global step %d: %s", current_global_step, _dict_to_str(dictionary))
    summary = tf.compat.v1.Summary()
    for key, value in dictionary.items():
        if key == "global_step" or value is None:
            continue
        if isinstance(value, np.ndarray) and value.ndim:
            summary.value.add(tag=key).tensor.CopyFrom(tf.make_tensor_proto(value))
        elif isinstance(value, float | int | np.number | np.ndarray):
            summary.value.add(tag=key, simple_value=float(value))
        elif isinstance(value, bytes):
            _add_summary(summary, key, value)
        else:
            _log.warning("Skipping summary for %s, must be a number, array or Summary.", key)
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriterCache.get(output_dir)
    writer.add_summary(summary, current_global_step)
    writer.flush()


def _add_summary(summary: Any, key: str, serialized: bytes) -> None:
    parsed = tf.compat.v1.Summary.FromString(serialized)
    for index, value in enumerate(parsed.value):
        value.tag = f"{key}/{index}"
        summary.value.add().CopyFrom(value)
