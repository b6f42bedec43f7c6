"""Writes fixtures/columns.npz: outputs and gradients of TensorFlow 2.15's own feature columns.

Run from the top of the repository with a Python that has tensorflow==2.15:
python -m tests.features.make_fixtures
"""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from tests.features import column_cases as cases

v1 = tf.compat.v1
fc = v1.feature_column


def run(build, make_features, columns):
    """Output, variable names and gradients of one layer with fixed values of its variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        output = build(make_features(), columns(fc))
        variables = v1.global_variables()
        target = tf.reduce_sum(output * cases.fixed_factors(output_shape(session, output)))
        gradients = tf.gradients(target, variables)
        for variable in variables:
            value = cases.fixed_value(variable.name, variable.shape.as_list())
            session.run(variable.assign(value))
        found = {"output": session.run(output)}
        for variable, gradient in zip(variables, gradients, strict=True):
            found["gradient:" + variable.name] = session.run(tf.convert_to_tensor(gradient))
        return found


def output_shape(session, output):
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])
    return session.run(tf.shape(output))


def main():
    tf.get_logger().setLevel("ERROR")
    stored = {}

    def store(kind, all_columns, make_features, build):
        for name in all_columns(fc):
            found = run(build, make_features, lambda fc, name=name: all_columns(fc)[name])
            for part, value in found.items():
                stored[f"{kind}|{name}|{part}"] = value

    with tf.Graph().as_default():
        names = [
            ("dense_input", cases.dense_input_columns, lambda: cases.dense_features(1)),
            ("sparse_input", cases.sparse_input_columns, cases.sparse_features),
        ]
        for kind, columns, features in names:
            store(kind, columns, features, fc.input_layer)
        store(
            "dense_linear",
            cases.dense_linear_columns,
            lambda: cases.dense_features(1),
            lambda f, c: fc.linear_model(f, c, units=2),
        )
        for combiner in ("sum", "mean", "sqrtn"):
            store(
                "sparse_linear_" + combiner,
                cases.sparse_linear_columns,
                cases.sparse_features,
                lambda f, c, combiner=combiner: fc.linear_model(
                    f, c, units=2, sparse_combiner=combiner
                ),
            )
    for name, columns in cases.sequence_columns(fc).items():
        layer = tf.keras.experimental.SequenceFeatures(columns)
        layer(cases.sparse_features())
        layer.set_weights([cases.fixed_value(w.name, w.shape) for w in layer.weights])
        output, lengths = layer(cases.sparse_features())
        stored[f"sequence|{name}|output"] = output.numpy()
        stored[f"sequence|{name}|lengths"] = lengths.numpy()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "columns.npz")
    np.savez_compressed(path, **stored)
    print(len(stored), "arrays in", path)


if __name__ == "__main__":
    main()
