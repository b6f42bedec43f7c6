"""The memory of nearest-neighbour models: points in variables, and the search among them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1
_FIRST_ROOM = 1024
# So many distances are held at a time, for each point that is asked about.
_CHUNK = 16_384


class Memory:
    """Points with their labels, in variables that grow with them.

    Room is doubled when it is full, so that storing n points copies no more than about 2 n.
    """

    def __init__(self, dimensions: int, label_shape: list[int], label_dtype: tf.DType) -> None:
        self.points = _growing("neighbors/points", [dimensions], tf.float32)
        self.labels = _growing("neighbors/labels", label_shape, label_dtype)
        zero = tf.constant(0, tf.int64)
        self.count = _v1.Variable(zero, name="neighbors/count", trainable=False)

    def store(self, points: tf.Tensor, labels: tf.Tensor) -> list[Any]:
        """Add rows at the end; what has to run for it."""
        count = self.count.read_value()
        added = tf.shape(points, out_type=tf.int64)[0]
        rows = count + tf.range(added)
        done = []
        for variable, values in ((self.points, points), (self.labels, labels)):
            with tf.control_dependencies([_make_room(variable, count + added)]):
                done.append(
                    tf.raw_ops.ResourceScatterUpdate(
                        resource=variable.handle, indices=rows, updates=values
                    )
                )
        with tf.control_dependencies([op for op in done if op is not None]):
            return [self.count.assign_add(added)]

    def nearest(self, points: tf.Tensor, k: int, cosine: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Distances to the k nearest stored points, nearest first, and their places."""
        count = self.count.read_value()
        stored = self.points.read_value()[:count]
        if cosine:
            points, stored = (tf.math.l2_normalize(x, axis=1) for x in (points, stored))
        else:
            # Differences of large numbers lose digits; around their mean they are small.
            middle = tf.reduce_mean(stored, axis=0)
            points, stored = points - middle, stored - middle
        places = _search(points, stored, tf.cast(tf.minimum(count, k), tf.int32))
        nearest = tf.gather(stored, places)
        squares = tf.reduce_sum(tf.square(nearest - points[:, None, :]), axis=2)
        # |u - v|² = 2 - 2 u·v, where u and v have length 1.
        return (squares / 2 if cosine else tf.sqrt(squares)), places


def _search(points: tf.Tensor, stored: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
    """[points, k] places of the nearest, in chunks: not all distances have to fit in memory."""
    rows, count = tf.shape(points)[0], tf.shape(stored)[0]
    best = tf.fill([rows, 0], tf.constant(0, tf.float32))
    places = tf.zeros([rows, 0], tf.int32)

    def look(start: tf.Tensor, best: tf.Tensor, places: tf.Tensor) -> tuple[Any, Any, Any]:
        part = stored[start : start + _CHUNK]
        # Without |point|², which is the same for all.
        closeness = 2 * tf.matmul(points, part, transpose_b=True)
        closeness -= tf.reduce_sum(tf.square(part), axis=1)[None, :]
        here = tf.broadcast_to(start + tf.range(tf.shape(part)[0])[None, :], tf.shape(closeness))
        # What was found before comes first: among equals the earliest stored wins.
        closeness = tf.concat([best, closeness], axis=1)
        here = tf.concat([places, here], axis=1)
        top = tf.math.top_k(closeness, tf.minimum(k, tf.shape(closeness)[1]))
        return start + _CHUNK, top.values, tf.gather(here, top.indices, batch_dims=1)

    unknown = tf.TensorShape([points.shape[0], None])
    _, _, places = tf.while_loop(
        lambda start, *_: start < count,
        look,
        [tf.constant(0), best, places],
        shape_invariants=[tf.TensorShape([]), unknown, unknown],
    )
    return places


def _growing(name: str, row_shape: list[int], dtype: tf.DType) -> tf.Variable:
    return _v1.Variable(
        tf.zeros([_FIRST_ROOM, *row_shape], dtype),
        name=name,
        trainable=False,
        validate_shape=False,
        shape=tf.TensorShape([None, *row_shape]),
    )


def _make_room(variable: tf.Variable, wanted: tf.Tensor) -> tf.Tensor:
    values = variable.read_value()
    room = tf.shape(values, out_type=tf.int64)[0]

    def grow() -> tf.Tensor:
        more = tf.maximum(wanted - room, room)
        shape = tf.concat([[more], tf.shape(values, out_type=tf.int64)[1:]], axis=0)
        larger = tf.concat([values, tf.zeros(shape, values.dtype)], axis=0)
        grown = variable.assign(larger, read_value=False)
        with tf.control_dependencies([] if grown is None else [grown]):
            return tf.constant(True)

    return tf.cond(wanted > room, grow, lambda: tf.constant(False))
