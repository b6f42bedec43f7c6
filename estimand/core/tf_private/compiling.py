"""What XLA reads from its environment, once, when it first compiles something."""

from __future__ import annotations

import functools
import os

import tensorflow as tf

from estimand.core.tf_private.execution import eager_mode

_FLAGS = "XLA_FLAGS"
# The one release in which products are handed to YNNPACK; another one that does not know the flag
# would end the process.
_RELEASE = "2.21."
_WITHOUT_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type="


@functools.cache
def keep_products_in_one_thread() -> None:
    """Have XLA compute small matrix products where it is, unless the environment has flags for it.

    XLA of TensorFlow 2.21 gives them to YNNPACK, in another thread: in a step of a small network
    waiting for that thread takes longer than the products. The environment is left as it was, for
    the sake of processes that are started later.
    """
    if not tf.__version__.startswith(_RELEASE) or _FLAGS in os.environ:
        return
    os.environ[_FLAGS] = _WITHOUT_YNNPACK
    try:
        with eager_mode():
            tf.function(lambda: tf.constant(0), jit_compile=True, autograph=False)()
    finally:
        del os.environ[_FLAGS]
