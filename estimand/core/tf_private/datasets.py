"""What a Dataset keeps to itself."""

from __future__ import annotations

import tensorflow as tf

# Every v1 way to an iterator (the `tf.compat.v1.data.make_*_iterator` functions, under whatever
# name they were imported, and the methods of v1 Datasets) ends in one of these two methods of
# `tf.compat.v1.data.Dataset`; replacing the public functions would miss earlier imports.
V1_ITERATOR_METHODS = ("_make_one_shot_iterator", "_make_initializable_iterator")


def has_tunable_stage(dataset: tf.data.Dataset) -> bool:
    """Whether any stage of a pipeline leaves its parallelism to `tf.data.AUTOTUNE`.

    A Dataset knows its inputs, but has no public way to ask for them. When in doubt: yes.
    """
    stack = [dataset]
    while stack:
        stage = stack.pop()
        calls = getattr(stage, "_num_parallel_calls", None)
        if calls is not None and tf.get_static_value(calls) in (None, tf.data.AUTOTUNE):
            return True
        if type(stage).__name__ == "_VariantDataset":  # what it is made of cannot be seen
            return True
        stack.extend(stage._inputs())
    return False
