"""Batch normalization, two optimizers, accumulated gradients, partitions, Python and loops."""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

random = np.random.RandomState(0)
X = random.rand(40, 4).astype("float32")
IDS = random.randint(0, 10, 40)
Y = random.rand(40, 1).astype("float32")
WEIGHTS = random.rand(40, 1).astype("float32")


def rows():
    for x, number, weight, y in zip(X, IDS, WEIGHTS, Y):  # noqa: B905
        yield {"x": x, "id": number, "weight": weight}, y


def input_fn(epochs=None):
    types = ({"x": tf.float32, "id": tf.int64, "weight": tf.float32}, tf.float32)
    shapes = ({"x": [4], "id": [], "weight": [1]}, [1])
    return tf.data.Dataset.from_generator(rows, types, shapes).repeat(epochs).batch(8)


def network(features, training):
    first = tf.constant_initializer(np.linspace(-0.5, 0.5, 32).astype("float32"))
    with tf.variable_scope("a", regularizer=lambda v: 1e-2 * tf.nn.l2_loss(v)):
        net = tf.matmul(features["x"], tf.get_variable("w", [4, 8], initializer=first))
        net = tf.layers.batch_normalization(net, training=training, momentum=0.9, fused=False)
        net = tf.nn.relu(net)
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
        table = tf.get_variable("table", [10, 8], initializer=tf.constant_initializer(0.05))
        net += tf.nn.embedding_lookup(table, features["id"], partition_strategy="div")
    with tf.variable_scope("b"):
        y = tf.layers.dense(net, 1, kernel_initializer=tf.constant_initializer(0.1))
    ones = tf.py_func(lambda z: np.ones_like(z), [y], tf.float32)
    ones.set_shape(y.shape)
    more = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + 0.01), [0, 0.0])[1]
    return y * tf.stop_gradient(ones) + more


def train_op(loss):
    step = tf.train.get_global_step()
    slow = tf.trainable_variables("a/")
    fast = [v for v in tf.trainable_variables() if not v.name.startswith("a/")]
    gradients = tf.gradients(loss, slow + fast)
    sums = [tf.Variable(tf.zeros(v.shape), trainable=False, name="sum") for v in slow]
    added = [total.assign_add(g) for total, g in zip(sums, gradients)]  # noqa: B905

    def apply():
        pairs = [(total / 2.0, v) for total, v in zip(sums, slow)]  # noqa: B905
        with tf.control_dependencies([tf.train.RMSPropOptimizer(0.01).apply_gradients(pairs)]):
            return tf.group(*[total.assign(tf.zeros_like(total)) for total in sums])

    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) + added):
        pairs = zip(gradients[len(slow) :], fast)  # noqa: B905
        both = [
            tf.cond(tf.equal((step + 1) % 2, 0), apply, tf.no_op),
            tf.train.AdagradOptimizer(0.05).apply_gradients(pairs),
        ]
    with tf.control_dependencies(both):
        return tf.assign_add(step, 1).op


def model_fn(features, labels, mode):
    y = network(features, mode == tf.estimator.ModeKeys.TRAIN)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": y})
    tf.losses.mean_squared_error(labels, y, weights=features["weight"])
    loss = tf.losses.get_total_loss()
    if mode == tf.estimator.ModeKeys.TRAIN:
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op(loss))
    metrics = {
        "below": tf.metrics.percentage_below(tf.abs(labels - y), 0.5),
        "relative": tf.metrics.mean_relative_error(labels, y, labels + 1.0),
        "mean": tf.metrics.mean_tensor(tf.reduce_mean(y, 0)),
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


model = tf.estimator.Estimator(model_fn, sys.argv[1])
model.train(input_fn, steps=9)
results = model.evaluate(lambda: input_fn(1))
print(
    json.dumps(
        {
            "metrics": {name: np.ravel(value).tolist() for name, value in results.items()},
            "predictions": [row["y"].tolist() for row in model.predict(lambda: input_fn(1))][:5],
            "variables": {
                name: np.ravel(model.get_variable_value(name))[:4].tolist()
                for name in model.get_variable_names()
            },
        }
    )
)
