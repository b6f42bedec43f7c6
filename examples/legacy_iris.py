"""A model function from the TensorFlow 1 days, unchanged: v1 layers, losses, metrics, hooks.

Only two names are new: `estimand` where `tf.estimator` stood, and `estimand.compat.v1.layers`
where `tf.layers` stood.

    python examples/legacy_iris.py [--max_steps N]
"""

from __future__ import annotations

import argparse
import tempfile

from estimand.cli.quiet import quiet_start

with quiet_start():
    import tensorflow.compat.v1 as tf

import estimand as est
from estimand.compat.v1 import layers


def load_iris():
    from sklearn.datasets import load_iris as bundled

    data = bundled()
    return data.data.astype("float32"), data.target.astype("int64")


X, Y = load_iris()


def train_input_fn():
    dataset = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    dataset = dataset.shuffle(150).repeat().batch(30)
    iterator = tf.data.make_one_shot_iterator(dataset)
    features, labels = iterator.get_next()
    return features, labels


def eval_input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(30)


def model_fn(features, labels, mode, params):
    net = features["x"]
    for units in params["hidden_units"]:
        net = layers.dense(net, units=units, activation=tf.nn.relu)
    net = layers.batch_normalization(net, training=mode == est.ModeKeys.TRAIN)
    logits = layers.dense(net, params["n_classes"], activation=None)

    predicted_classes = tf.argmax(logits, 1)
    if mode == est.ModeKeys.PREDICT:
        predictions = {
            "class_ids": predicted_classes[:, tf.newaxis],
            "probabilities": tf.nn.softmax(logits),
        }
        return est.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predicted_classes, name="acc_op")
    tf.summary.scalar("accuracy", accuracy[1])
    if mode == est.ModeKeys.EVAL:
        return est.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    optimizer = tf.train.AdagradOptimizer(learning_rate=0.1)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


class PrintAccuracy(est.SessionRunHook):
    """Looks every 100 steps: the steps in between run at full speed."""

    cadence = est.every(steps=100)

    def begin(self):
        self._accuracy = tf.get_default_graph().get_tensor_by_name("acc_op/update_op:0")

    def before_run(self, run_context):
        return est.SessionRunArgs([self._accuracy, tf.train.get_global_step()])

    def after_run(self, run_context, run_values):
        accuracy, step = run_values.results
        print(f"  step {step:4d}  training accuracy so far {accuracy:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max_steps", type=int, default=500)
    args = parser.parse_args()
    classifier = est.Estimator(
        model_fn=model_fn,
        model_dir=tempfile.mkdtemp(prefix="iris-"),
        params={"hidden_units": [10, 10], "n_classes": 3},
    )
    classifier.train(train_input_fn, max_steps=args.max_steps, hooks=[PrintAccuracy()])
    print(f"Evaluation: {classifier.evaluate(eval_input_fn)}")
    print(f"Variables: {', '.join(classifier.get_variable_names())}")


if __name__ == "__main__":
    main()
