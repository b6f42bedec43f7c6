"""Requests answered one after another by one `predict`, which waits for them in a generator.

So do `FastPredict`, of which there are many copies, and servers such as bert-as-service.
"""

import sys

import numpy as np
import tensorflow as tf


class FastPredict:
    def __init__(self, estimator, **options):
        self.estimator = estimator
        self.options = options
        self.answers = None

    def requests(self):
        while True:
            for row in self.waiting:
                yield {"x": row, "client": f"client {row[0]:.0f}"}

    def input_fn(self):
        types, shapes = {"x": tf.float32, "client": tf.string}, {"x": [1], "client": []}
        rows = tf.data.Dataset.from_generator(self.requests, types, shapes)
        if self.options:  # one request is one batch, and its client a single word
            return rows
        return rows.batch(1).make_one_shot_iterator().get_next()

    def ask(self, row):
        self.waiting = [row]
        if self.answers is None:
            self.answers = self.estimator.predict(self.input_fn, **self.options)
        return next(self.answers)


def model_fn(features, labels, mode):
    weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(2.0))
    doubled = features["x"] * weight
    return tf.estimator.EstimatorSpec(mode, {"y": doubled, "client": features["client"]})


def main():
    estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
    for options in ({}, {"yield_single_examples": False}):
        fast = FastPredict(estimator, **options)
        for number in range(12):
            answer = fast.ask([float(number)])
            np.testing.assert_allclose(answer["y"], [2.0 * number])
            assert answer["client"] == b"client %d" % number
    print("all done")


if __name__ == "__main__":
    main()
