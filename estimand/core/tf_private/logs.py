"""Log lines that callers intercept."""

from __future__ import annotations

from typing import Any


def warn(message: str, *args: Any) -> None:
    """A warning in TensorFlow's log, by way of the function that callers replace to see it."""
    from tensorflow.python.platform import tf_logging

    tf_logging.warning(message, *args)
