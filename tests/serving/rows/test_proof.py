"""Graphs that are proven to answer row by row, and those that must not be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from estimand.serving.rows.proof import Finding, Proof

v1 = tf.compat.v1
X = tf.TensorSpec([None, 3], tf.float32, "x")
FREE = tf.TensorSpec([None, None], tf.float32, "x")
WEIGHTS = np.float32([[1, 2], [3, 4], [5, 6]])


def finding(function: Callable, *specs: tf.TensorSpec) -> Finding:
    """Of a function's graph, with placeholders in the place of its arguments."""
    traced = tf.function(function, autograph=False).get_concrete_function(*(specs or (X,)))
    shapes: dict[str, tuple[int, ...] | None] = {}
    for one in traced.inputs[: len(specs or (X,))]:
        known = one.shape.rank is not None
        shapes[one.name] = tuple(size or -1 for size in one.shape) if known else None
    proof = Proof(traced.graph.as_graph_def(), shapes)
    return proof.of([one.name for one in traced.outputs])


def _normalized(x):
    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3)


def _tensordot(x):
    return tf.tensordot(tf.reshape(x, [tf.shape(x)[0], -1, 1]), tf.ones([1, 4]), 1)


def _initial_state(x):
    return tf.zeros([tf.shape(x)[0], 5]) + tf.reduce_sum(x, 1, keepdims=True)


def _steps(x):
    """Over the columns, as a recurrent network does."""
    states = tf.scan(lambda state, now: tf.tanh(state * 0.5 + now), tf.transpose(x))
    return tf.transpose(states)


def _turns(x):
    return tf.while_loop(lambda i, y: i < tf.shape(x)[1], lambda i, y: (i + 1, y * 0.5), [0, x])[1]


def _branch_on_a_constant(x):
    return tf.cond(tf.constant(1.0) > 0.5, lambda: x * 2.0, lambda: x + 1.0)


def _branch_on_width(x):
    return tf.cond(tf.shape(x)[1] > 2, lambda: x * 2.0, lambda: x + 1.0)


def _sparse_lookup(x):
    ids = tf.sparse.from_dense(tf.cast(tf.abs(x), tf.int64) % 3)
    filled, _ = tf.sparse.fill_empty_rows(ids, 0)
    return tf.nn.embedding_lookup_sparse(tf.constant(WEIGHTS), filled, None, combiner="mean")


def _parsed(x):
    """Rows with any number of values each, filled up to the longest."""
    spec = {"ids": tf.io.VarLenFeature(tf.int64)}
    ids = tf.io.parse_example(tf.strings.as_string(x[:, 0]), spec)["ids"]
    return tf.sparse.to_dense(ids, default_value=-1)


def _padded_and_summed_up(x):
    return tf.reduce_sum(tf.one_hot(_parsed(x), 3), axis=-2)


def _each_value_once(x):
    values, places = tf.unique(tf.cast(x[:, 0], tf.int32) % 3)
    return tf.gather(tf.gather(tf.constant(WEIGHTS), values), places)


ROW_BY_ROW: dict[str, Callable] = {
    "dense layer": lambda x: tf.nn.softmax(tf.nn.relu(x @ WEIGHTS)),
    "layer normalization": _normalized,
    "tensordot": _tensordot,
    "flattened": lambda x: tf.reshape(tf.reshape(x, [-1, 3, 1]), [-1, 3]),
    "state of zeros": _initial_state,
    "steps over columns": _steps,
    "turns by width": _turns,
    "branch on a constant": _branch_on_a_constant,
    "branch on width": _branch_on_width,
    "own columns reversed": lambda x: tf.reverse(x, [1]),
    "sum along columns": lambda x: tf.cumsum(x, axis=1),
    "best column": lambda x: tf.one_hot(tf.argmax(x, axis=-1), 3),
    "sorted columns": lambda x: tf.math.top_k(x, 2).values,
    "rows of a table": lambda x: tf.gather(WEIGHTS, tf.cast(tf.abs(x[:, 0]), tf.int32) % 3),
    "by itself": lambda x: tf.einsum("bi,bj->bij", x, x),
    "attention": lambda x: tf.matmul(x[:, :, None], x[:, :, None], transpose_b=True),
    "own places": lambda x: tf.gather(x, tf.range(tf.shape(x)[0])),
    "a class for each": lambda x: tf.tile([["a", "b"]], [tf.shape(x)[0], 1]),
    "entries of sparse rows": _sparse_lookup,
    "padded and summed up": _padded_and_summed_up,
    "each value looked up once": _each_value_once,
    "one of several, by row": lambda x: tf.where(x[:, :1] > 0.0, x, -x),
    "by row from the row": lambda x: tf.gather(x, tf.argsort(x, axis=1), batch_dims=1),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_what_answers_row_by_row_is_proven(name: str) -> None:
    assert finding(ROW_BY_ROW[name]) == Finding(row_by_row=True, may_wait=False)


def _rarely_by_the_largest(x):
    return tf.cond(tf.reduce_max(x) > 1000.0, lambda: x - x[:1], lambda: x * 1.0)


def _loop_until_all_are_done(x):
    return tf.while_loop(lambda y: tf.reduce_max(y) > 1.0, lambda y: [y * 0.5], [x])[0]


def _loop_over_rows(x):
    return tf.scan(lambda state, row: state + row, x)


def _state_in_a_loop(x):
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y - tf.reduce_mean(y)), [0, x])[1]


def _entries_without_their_rows(x):
    ids = tf.sparse.from_dense(x)
    return tf.math.segment_sum(ids.values, ids.indices[:, 0])


def _two_kinds_of_entries(x):
    left, right = tf.where(x > 0.0), tf.where(x < 0.0)
    both = tf.gather_nd(x, left) + tf.gather_nd(x, right)
    filled, _ = tf.sparse.fill_empty_rows(
        tf.SparseTensor(left, both, tf.shape(x, tf.int64)), tf.constant(0.0)
    )
    return tf.math.segment_sum(filled.values, filled.indices[:, 0])


def _padded_mean(x):
    return tf.reduce_mean(tf.one_hot(_parsed(x), 3), axis=-2)


def _padded_sum_of_other_than_zero(x):
    return tf.reduce_sum(tf.one_hot(_parsed(x), 3, off_value=0.5), axis=-2)


def _padded_largest(x):
    return tf.reduce_max(tf.cast(_parsed(x), tf.float32), axis=-1)


def _inner_function(x):
    return tf.function(lambda y: y / tf.reduce_sum(y, axis=0))(x)


def _assigning(x):
    counter = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
    with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=counter, value=1.0)]):
        return x + 0.0


MIXING: dict[str, Callable] = {
    "mean of all": lambda x: x - tf.reduce_mean(x),
    "largest of all, rarely": _rarely_by_the_largest,
    "softmax over rows": lambda x: tf.nn.softmax(x, axis=0),
    "batch normalization of this batch": lambda x: tf.nn.batch_normalization(
        x, *tf.nn.moments(x, [0]), None, None, 1e-3
    ),
    "sum along rows": lambda x: tf.cumsum(x, axis=0),
    "sorted rows": lambda x: tf.sort(x, axis=0),
    "reversed rows": lambda x: tf.reverse(x, [0]),
    "rows shifted": lambda x: tf.roll(x, 1, axis=0),
    "the row before": lambda x: tf.concat([x[:1], x[:-1]], 0),
    "first row for all": lambda x: x * 0.0 + x[:1],
    "first row by number": lambda x: x - x[0],
    "number of rows": lambda x: x * tf.cast(tf.shape(x)[0], tf.float32),
    "number of elements": lambda x: x / tf.cast(tf.size(x), tf.float32),
    "branch on the number of rows": lambda x: tf.cond(
        tf.shape(x)[0] > 1, lambda: x * 2.0, lambda: x * 1.0
    ),
    "place in the batch": lambda x: x + tf.cast(tf.range(tf.shape(x)[0]), tf.float32)[:, None],
    "cut elsewhere": lambda x: tf.reshape(x, [tf.shape(x)[0], 3])[::-1],
    "reshaped over rows": lambda x: tf.reshape(tf.reshape(x, [3, -1]), [-1, 3]),
    "reshaped by parts of rows": lambda x: tf.reduce_sum(tf.reshape(x, [-1, 2]), 1),
    "pairs across rows": lambda x: tf.reshape(tf.reverse(tf.reshape(x, [-1, 2]), [1]), [-1, 3]),
    "transposed and reshaped": lambda x: tf.reshape(tf.transpose(x), [-1, 3]),
    "products of rows": lambda x: tf.matmul(x, x, transpose_b=True) @ x,
    "products by transposition": lambda x: x @ tf.matmul(x, x, transpose_a=True),
    "sum by einsum": lambda x: tf.einsum("bi,cj->bj", x, x),
    "broadcast against columns": lambda x: x[:, 0] + x,
    "constant that is as long as a batch may be": lambda x: x[:, 0] + [1.0, 2.0, 3.0],
    "squeezed whatever is one": lambda x: tf.squeeze(tf.reduce_sum(x, 1, keepdims=True)),
    "distinct values": lambda x: tf.unique(x[:, 0])[0],
    "place among distinct values": lambda x: tf.unique(tf.cast(x[:, 0], tf.int32))[1],
    "segments by a column": lambda x: tf.math.unsorted_segment_sum(
        x, tf.cast(x[:, 0], tf.int32), tf.shape(x)[0]
    ),
    "entries of rows, some without": _entries_without_their_rows,
    "entries of two kinds": _two_kinds_of_entries,
    "padding": _parsed,
    "mean over padding": _padded_mean,
    "sum over padding that counts": _padded_sum_of_other_than_zero,
    "largest with padding": _padded_largest,
    "gathered from other rows": lambda x: tf.gather(x, tf.cast(x[:, 0], tf.int32)),
    "loop until all are done": _loop_until_all_are_done,
    "loop over rows": _loop_over_rows,
    "mean inside of a loop": _state_in_a_loop,
    "inside of a function": _inner_function,
    "random numbers": lambda x: x + tf.random.uniform(tf.shape(x)),
    "random numbers by seed": lambda x: x + tf.random.stateless_uniform(tf.shape(x), [1, 2]),
    "the clock": lambda x: x + tf.cast(tf.timestamp(), tf.float32),
    "assigned variable": _assigning,
    "python": lambda x: tf.ensure_shape(tf.numpy_function(lambda a: a, [x], tf.float32), [None, 3]),
    "printed": lambda x: tf.raw_ops.Print(input=x, data=[x]),
    "nearest of all": lambda x: tf.gather(x, tf.argmin(tf.abs(x - 1.0), axis=0)[0]),
    "unknown operation": lambda x: tf.linalg.qr(x)[0],
    "whole batch as one": lambda x: tf.reshape(x, [1, -1]),
    "constant": lambda x: tf.constant(WEIGHTS),
}


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_rows_is_never_proven(name: str) -> None:
    assert not finding(MIXING[name]).row_by_row


def test_columns_of_any_number_are_as_good() -> None:
    assert finding(lambda x: tf.reshape(tf.nn.relu(x), [-1, tf.shape(x)[1]]), FREE).row_by_row
    assert finding(lambda x: tf.reduce_mean(x, -1), FREE).row_by_row
    assert not finding(lambda x: tf.reshape(x, [-1, 2]), FREE).row_by_row


def test_an_input_without_rows_proves_nothing() -> None:
    assert not finding(lambda x: x * 2.0, tf.TensorSpec([3], tf.float32, "x")).row_by_row
    assert not finding(lambda x: x * 2.0, tf.TensorSpec(None, tf.float32, "x")).row_by_row


def test_two_inputs_are_of_the_same_rows() -> None:
    y = tf.TensorSpec([None, 3], tf.float32, "y")
    assert finding(lambda x, y: x * y, X, y).row_by_row
    assert not finding(lambda x, y: x * tf.reduce_max(y, 0), X, y).row_by_row


def test_every_output_has_to_be_row_by_row() -> None:
    assert not finding(lambda x: (x * 2.0, tf.reduce_sum(x))).row_by_row


def test_loops_that_depend_on_what_is_asked_may_wait() -> None:
    assert finding(_loop_until_all_are_done).may_wait
    assert finding(lambda x: tf.function(_loop_until_all_are_done)(x)).may_wait
    assert not finding(_turns).may_wait
    assert not finding(lambda x: x - tf.reduce_mean(x)).may_wait


def test_a_graph_that_is_too_large_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("estimand.serving.rows.walk._MOST_STEPS", 3)
    assert not finding(lambda x: tf.nn.relu(tf.nn.relu(tf.nn.relu(x)))).row_by_row


def test_functions_that_call_each_other_twice_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand calls."""
    monkeypatch.setattr("estimand.serving.rows.walk._MOST_STEPS", 2000)
    function = tf.function(lambda x: x * 2.0, autograph=False)
    for _ in range(10):
        inner = function

        def outer(x, inner=inner):
            return inner(x) + inner(x)

        function = tf.function(outer, autograph=False)
    assert not finding(lambda x: function(x)).row_by_row
