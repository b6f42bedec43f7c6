"""Does a pipeline parse its records one by one? It costs about ten times as much as in batches."""

from __future__ import annotations

import tensorflow as tf

from estimand.core import tf_private

# Operations that can take one record or a batch of them, and which of their inputs it is.
_EITHER = {"ParseExampleV2": 0, "ParseExample": 0, "ParseSequenceExampleV2": 0}
_SINGLE = frozenset({"ParseSingleExample", "ParseSingleSequenceExample"})

ADVICE = (
    "%s parses its records one at a time, which costs about ten times as much as parsing batches "
    "of them. Batch first: `dataset.batch(n).map(lambda records: tf.io.parse_example(records, "
    "spec))`, or use `est.inputs.tfrecord_input_fn`."
)


def parses_one_by_one(dataset: tf.data.Dataset) -> bool:
    """Whether a function of the pipeline parses a single tf.train.Example at a time.

    >>> spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
    >>> records = tf.data.Dataset.from_tensor_slices([b""])
    >>> parses_one_by_one(records.map(lambda r: tf.io.parse_single_example(r, spec)).batch(2))
    True
    >>> parses_one_by_one(records.batch(2).map(lambda r: tf.io.parse_example(r, spec)))
    False
    """
    for graph in tf_private.function_graphs(dataset):
        for op in graph.get_operations():
            if op.type in _SINGLE:
                return True
            place = _EITHER.get(op.type)
            if place is not None and op.inputs[place].shape.rank == 0:
                return True
    return False
