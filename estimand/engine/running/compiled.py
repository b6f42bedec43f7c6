"""The shortest way from Python into a compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.interpreter import garbage
from estimand.engine import time_spent

PLAIN = "plain"
SINGLE_THREAD = "single_thread"
XLA = "xla"
ONEDNN = "onednn"
BLOCK_MODES = (PLAIN, SINGLE_THREAD, XLA, ONEDNN)

# Around the loop that XLA compiles there is only the taking of batches.
_EXECUTOR = {
    PLAIN: "",
    ONEDNN: "",
    SINGLE_THREAD: "SINGLE_THREADED_EXECUTOR",
    XLA: "SINGLE_THREADED_EXECUTOR",
}


_SHAPES = ("Shape", "ShapeN", "Identity")


class Compiled:
    """A traced function called as one op: half the cost of calling the function object.

    Takes the dense components of its arguments, returns the flat list of its outputs.
    """

    @time_spent.on(time_spent.STARTING)
    def __init__(self, build: Callable[..., Any], block_mode: str, *args: Any) -> None:
        def results(*given: Any) -> Any:
            return tf.nest.map_structure(_without_type_of_shapes, build(*given))

        with (
            garbage.left_alone(),
            tf_private.executor(bool(_EXECUTOR[block_mode])),
            tf_private.calls_as_they_are(),
        ):
            self._function = tf.function(results, autograph=False).get_concrete_function(*args)
        self._captured = list(self._function.captured_inputs)
        self._types = [t.dtype for t in self._function.outputs]
        self._executor = _EXECUTOR[block_mode]
        self._config = _as_it_is()

    def __call__(self, *args: tf.Tensor) -> list[tf.Tensor]:
        return tf.raw_ops.StatefulPartitionedCall(
            args=[*args, *self._captured],
            Tout=self._types,
            f=self._function,
            executor_type=self._executor,
            config_proto=self._config,
        )


def _as_it_is() -> bytes:
    """How a call is run: no rewriting, and devices that are not there give way if they may.

    TensorFlow's graph optimizer changes last bits, and not the same ones in a step that is looked
    at and one that is not: graphs are run as they were built (and simplified: see `simplifying`).
    """
    config = tf.compat.v1.ConfigProto(allow_soft_placement=tf.config.get_soft_device_placement())
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config.SerializeToString()


def _without_type_of_shapes(result: Any) -> Any:
    """A result as it is. TensorFlow 2.21 knows a shape for one, but lets no function return it."""
    if isinstance(result, tf.Tensor) and result.dtype == tf.int32 and result.op.type in _SHAPES:
        return tf.bitwise.bitwise_or(result, 0)
    return result
