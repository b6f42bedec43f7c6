"""Tiny SavedModels of several makers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def write_half_plus(directory: Path, added: float) -> None:
    """y = x / 2 + added as TF1 wrote it: reference variables, tf.Examples, three methods."""
    with tf.Graph().as_default(), v1.Session() as session:
        a = v1.Variable(0.5, name="a", use_resource=False)
        b = v1.Variable(added, name="b", use_resource=False)
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        parsed = v1.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        x = tf.identity(parsed["x"], name="x")
        y = tf.add(tf.multiply(a, x), b, name="y")
        session.run(v1.global_variables_initializer())
        saved = v1.saved_model
        builder = saved.builder.SavedModelBuilder(str(directory))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={
                "serving_default": saved.predict_signature_def({"x": x}, {"y": y}),
                "regress_x_to_y": saved.regression_signature_def(examples, y),
                "classify_x_to_y": saved.build_signature_def(
                    {"inputs": saved.build_tensor_info(examples)},
                    {"scores": saved.build_tensor_info(y)},
                    "tensorflow/serving/classify",
                ),
            },
        )
        builder.save()


def write_function(directory: Path, function: Callable, specs: dict[str, tf.TensorSpec]) -> None:
    """A TF2 SavedModel with one signature."""

    class Holder(tf.Module):
        @tf.function(input_signature=[])
        def nothing(self):
            return 0

    named = {key: tf.TensorSpec(s.shape, s.dtype, name=key) for key, s in specs.items()}
    traced = tf.function(lambda **inputs: function(**inputs)).get_concrete_function(**named)
    tf.saved_model.save(Holder(), str(directory), signatures={"serving_default": traced})


def write_two_heads(directory: Path) -> None:
    """TF2: each signature has an input tensor of its own for the serialized tf.Examples."""

    def x_of(examples):
        return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]

    spec = tf.TensorSpec([None], tf.string, name="inputs")
    signatures = {
        "regress": tf.function(lambda inputs: {"outputs": x_of(inputs) + 1.0}, [spec]),
        "classify": tf.function(lambda inputs: {"scores": x_of(inputs) * 2.0}, [spec]),
    }
    tf.saved_model.save(tf.Module(), str(directory), signatures)


def write_two_inputs(directory: Path) -> None:
    def call(a, b):
        return {"sum": a + b, "product": a * b}

    spec = tf.TensorSpec([None], tf.float32)
    write_function(directory, call, {"a": spec, "b": spec})


def write_types(directory: Path) -> None:
    """Gives back what it is given, of every kind that has a JSON form."""

    def call(**inputs):
        return {f"{key}_out": tf.identity(value) for key, value in inputs.items()}

    kinds = {
        "f32": tf.float32,
        "f64": tf.float64,
        "i32": tf.int32,
        "i64": tf.int64,
        "u8": tf.uint8,
        "bool": tf.bool,
        "text": tf.string,
    }
    specs = {key: tf.TensorSpec(None, kind) for key, kind in kinds.items()}
    write_function(directory, call, specs)


def write_bytes(directory: Path) -> None:
    def call(image):
        return {"image_bytes": tf.identity(image)}

    write_function(directory, call, {"image": tf.TensorSpec([None], tf.string)})


def write_sparse(directory: Path) -> None:
    """A sparse input; its sums, and a sparse output of twice its values."""
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.sparse_placeholder(tf.int64, [None, None], name="ids")
        outputs = {
            "sum": tf.sparse.reduce_sum(ids, 1),
            "twice": tf.SparseTensor(ids.indices, ids.values * 2, ids.dense_shape),
        }
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {"ids": info(ids)},
            {name: info(one) for name, one in outputs.items()},
            tf.saved_model.PREDICT_METHOD_NAME,
        )
        builder = v1.saved_model.builder.SavedModelBuilder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


def write_batch_mean(directory: Path) -> None:
    """Its rows depend on each other: requests must never share a call."""

    def call(x):
        return {"y": x - tf.reduce_mean(x)}

    write_function(directory, call, {"x": tf.TensorSpec([None], tf.float32)})


def write_slow(directory: Path) -> None:
    """About a quarter of a second per call."""

    def call(x):
        start = tf.timestamp()
        late = tf.while_loop(
            lambda t: tf.less(t - start, 0.25), lambda t: [tf.timestamp()], [tf.timestamp()]
        )
        with tf.control_dependencies(late):
            return {"y": tf.identity(x) + 1.0}

    write_function(directory, call, {"x": tf.TensorSpec([None], tf.float32)})


def write_classifier(directory: Path) -> None:
    """An export of ours: a canned classifier over tf.Examples, with its default signatures."""
    columns = [tf.feature_column.numeric_column("x")]
    estimator = est.LinearClassifier(columns, config=est.RunConfig(tf_random_seed=1))

    def input_fn():
        x = np.float32([[1.0], [-1.0]])
        return tf.data.Dataset.from_tensors(({"x": x}, [[1], [0]])).repeat(3)

    estimator.train(input_fn)
    spec = tf.feature_column.make_parse_example_spec(columns)
    receiver = est.export.build_parsing_serving_input_receiver_fn(spec)
    made = estimator.export_saved_model(str(directory.parent), receiver)
    os.rename(os.fsdecode(made), directory)
