"""Summaries under v1 and v2 writers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from estimand.core.interpreter.swapping import swapped


@contextlib.contextmanager
def v1_summaries_stay_v1() -> Iterator[None]:
    """Keep `tf.compat.v1.summary.*` producing Summary protos while a v2 writer is the default.

    With a default writer TensorFlow turns v1 summary calls into v2 ones, and
    `merge_all()`, which hooks fetch, finds nothing; without one it warns at every call.
    """
    from tensorflow.python.summary import summary

    names = [n for n in ("_should_invoke_v2_op", "should_invoke_v2_op") if hasattr(summary, n)]
    with swapped((summary, name, lambda original: lambda: False) for name in names):
        yield
