"""Names of devices that can be changed, as those of TensorFlow 1 could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def _merge_from(self: Any, dev: Any) -> None:
    """What is told of `dev` takes the place of what is told of this one."""
    _become(self, self.make_merged_spec(dev))


def _parse_from_string(self: Any, spec: str) -> Any:
    """Be what `spec` says; `from_string` makes a new one."""
    _become(self, type(self).from_string(spec))
    return self


def _become(spec: Any, other: Any) -> None:
    parts = ("job", "replica", "task", "device_type", "device_index")
    spec.__init__(**{part: getattr(other, part) for part in parts})


def missing_methods() -> Iterator[tuple[type, str, Any]]:
    """What the class of `tf.DeviceSpec` lacks: the class, the name, and what to put there."""
    for name, method in {
        "merge_from": _merge_from,
        "parse_from_string": _parse_from_string,
    }.items():
        if not hasattr(tf.DeviceSpec, name):
            yield tf.DeviceSpec, name, method
