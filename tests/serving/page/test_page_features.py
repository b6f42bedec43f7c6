"""What tf.Examples hold is read off the graph, whichever operation parses them."""

from __future__ import annotations

import tensorflow as tf

from estimand.export.loaded.example_features import example_features

SPEC = {
    "price": tf.io.FixedLenFeature([2, 3], tf.float32),
    "word": tf.io.VarLenFeature(tf.string),
    "count": tf.io.FixedLenFeature([], tf.int64, default_value=0),
}
FOUND = {
    "price": {"dtype": "float32", "shape": [None, 2, 3], "required": True},
    "word": {"dtype": "string", "shape": [None, None]},
    "count": {"dtype": "int64", "shape": [None], "default": 0},
}


def graph_of(parse) -> object:
    with tf.Graph().as_default() as graph:
        parse(tf.compat.v1.placeholder(tf.string, [None]))
    return graph.as_graph_def()


def test_a_batch() -> None:
    assert example_features(graph_of(lambda e: tf.io.parse_example(e, SPEC))) == FOUND


def test_ragged_features() -> None:
    spec = {**SPEC, "path": tf.io.RaggedFeature(tf.int64)}
    found = example_features(graph_of(lambda e: tf.io.parse_example(e, spec)))
    assert found == {**FOUND, "path": {"dtype": "int64", "shape": [None, None]}}


def test_one_after_another_inside_a_function() -> None:
    def parse(examples) -> None:
        tf.map_fn(
            lambda one: tf.io.parse_single_example(one, SPEC)["count"],
            examples,
            fn_output_signature=tf.int64,
        )

    assert example_features(graph_of(parse)) == FOUND


def test_the_operation_of_the_first_versions() -> None:
    def parse(examples) -> None:
        tf.raw_ops.ParseExample(
            serialized=examples,
            names=[],
            sparse_keys=[tf.constant("word")],
            dense_keys=[tf.constant("count"), tf.constant("price")],
            dense_defaults=[tf.constant([0], tf.int64), tf.constant([], tf.float32)],
            sparse_types=[tf.string],
            dense_shapes=[[], [2, 3]],
        )

    assert example_features(graph_of(parse)) == FOUND


def test_names_that_are_computed_and_graphs_that_parse_nothing() -> None:
    def parse(examples) -> None:
        tf.raw_ops.ParseExampleV2(
            serialized=examples,
            names=[],
            sparse_keys=tf.compat.v1.placeholder(tf.string, [1]),
            dense_keys=tf.constant([], tf.string),
            ragged_keys=tf.constant([], tf.string),
            dense_defaults=[],
            num_sparse=1,
            sparse_types=[tf.string],
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=[],
        )

    assert example_features(graph_of(parse)) == {}
    assert example_features(graph_of(lambda e: tf.identity(e))) == {}
