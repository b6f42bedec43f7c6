"""SavedModels that are valid, and do harm: to who loads them, or to who asks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.serving import making

v1 = tf.compat.v1


def _abort() -> tf.Operation:
    return tf.raw_ops.Abort(error_msg="a hostile model")


def _exit() -> tf.Operation:
    return tf.raw_ops.Abort(exit_without_error=True)


def _never_return() -> tf.Operation:
    def turn(number: tf.Tensor) -> list[tf.Tensor]:
        return [number + 1.0]

    start = tf.constant(0.0) * tf.cast(tf.timestamp(), tf.float32)  # nothing that could be folded
    return _used(tf.while_loop(lambda number: number > -1.0, turn, [start])[0])


def _take_memory() -> tf.Operation:
    """Twice as much with each turn, and all of it used."""

    def turn(values: tf.Tensor) -> list[tf.Tensor]:
        return [tf.concat([values, values + 1.0], 0)]

    start = tf.fill([2**18], tf.cast(tf.timestamp(), tf.float32))
    shapes = [tf.TensorShape([None])]
    return _used(tf.while_loop(lambda _: True, turn, [start], shape_invariants=shapes)[0][0])


def _used(value: tf.Tensor) -> tf.Operation:
    """Something that TensorFlow does not leave out."""
    return v1.Assert(tf.less(value, 0), [value])


HARM = {"abort": _abort, "exit": _exit, "hang": _never_return, "memory": _take_memory}


def write_harmful(directory: Path, harm: str, when: str) -> None:
    """y = x + 1, if you ever get there. `when` is load or answer."""
    do_harm = HARM[harm]
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        main_op = None
        if when == "load":
            main_op = tf.group(do_harm())
            y = x + 1.0
        else:
            with tf.control_dependencies([do_harm()]):
                y = x + 1.0
        _save(session, directory, {"x": x}, {"y": y}, main_op)


def write_on_demand(directory: Path, harm: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """y = x + 1, unless a request asks for the harm: then what `harm` makes of x."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        y = tf.cond(tf.reduce_any(x > 1e6), lambda: harm(x), lambda: x + 1.0)
        _save(session, directory, {"x": x}, {"y": y}, None)


def write_overflow(directory: Path) -> None:
    """A loop that TensorFlow's ordinary executor folds with a stack frame or more for each turn."""

    def call(x):
        turns = tf.while_loop(lambda i: i < 50_000, lambda i: [i + 1], [tf.constant(0)])[0]
        with tf.device("/GPU:0"):  # not for the single-threaded executor
            return {"y": x + tf.cast(turns, tf.float32)}

    making.write_function(directory, call, {"x": tf.TensorSpec([None], tf.float32)})
    file = directory / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for function in saved.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op == "StatelessWhile":
                node.attr["_lower_using_switch_merge"].b = False
    file.write_bytes(saved.SerializeToString())


def _save(session, directory, inputs, outputs, main_op) -> None:
    saved = v1.saved_model
    builder = saved.builder.SavedModelBuilder(str(directory))
    signature = saved.predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(
        session, ["serve"], {"serving_default": signature}, main_op=main_op
    )
    builder.save()
