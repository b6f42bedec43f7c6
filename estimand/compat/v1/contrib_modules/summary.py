"""`tf.contrib.summary`: TensorFlow 2's summaries under their first names.

The step of a summary is the global step unless it is given.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
all_summary_ops = v1.summary.all_v2_summary_ops
initialize = v1.summary.initialize


def create_file_writer(
    logdir: str,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> Any:
    """A writer of event files; `with writer.as_default():` makes it the one that is used."""
    return tf.summary.create_file_writer(logdir, max_queue, flush_millis, filename_suffix, name)


def always_record_summaries() -> Any:
    """A context in which every summary is written."""
    return tf.summary.record_if(True)


def never_record_summaries() -> Any:
    """A context in which none is."""
    return tf.summary.record_if(False)


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """A context in which those of every n-th step are."""
    step = _step(global_step)
    return tf.summary.record_if(lambda: tf.equal(step % n, 0))


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    return tf.summary.scalar(_tag(name, family), tensor, step=_step(step))


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    return tf.summary.histogram(_tag(name, family), tensor, step=_step(step))


def image(
    name: str,
    tensor: Any,
    bad_color: Any = None,
    max_images: int = 3,
    family: str | None = None,
    step: Any = None,
) -> Any:
    del bad_color
    return tf.summary.image(_tag(name, family), tensor, _step(step), max_outputs=max_images)


def generic(
    name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None
) -> Any:
    return tf.summary.write(_tag(name, family), tensor, _step(step), metadata)


def flush(writer: Any = None, name: str | None = None) -> Any:
    return tf.summary.flush(writer, name)


def _tag(name: str, family: str | None) -> str:
    return f"{family}/{name}" if family else name


def _step(given: Any) -> Any:
    return v1.train.get_or_create_global_step() if given is None else given
