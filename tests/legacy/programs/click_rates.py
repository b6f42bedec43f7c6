"""Click rates as recommenders were written in 2018: contrib's layers, an export, a predictor."""

import sys

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]
FIELDS, IDS = 4, 20
ids = np.random.RandomState(0).randint(0, IDS, (256, FIELDS))
clicks = (ids[:, 0] > 10).astype(np.float32)


def input_fn():
    rows = tf.data.Dataset.from_tensor_slices(({"ids": ids}, clicks)).repeat(4).batch(64)
    return rows.make_one_shot_iterator().get_next()


def batch_norm(x, training, scope):
    return tf.contrib.layers.batch_norm(
        x, decay=0.9, scale=True, updates_collections=None, is_training=training, scope=scope
    )


def model_fn(features, labels, mode, params):
    table = tf.get_variable("v", [IDS, 4], initializer=tf.glorot_normal_initializer())
    net = tf.reshape(tf.nn.embedding_lookup(table, features["ids"]), [-1, FIELDS * 4])
    penalty = tf.contrib.layers.l2_regularizer(params["l2"])
    with tf.contrib.framework.arg_scope(
        [tf.contrib.layers.fully_connected], weights_regularizer=penalty
    ):
        for i, units in enumerate([16, 8]):
            net = tf.contrib.layers.fully_connected(net, units, scope="mlp%d" % i)  # noqa: UP031
            net = batch_norm(net, mode == tf.estimator.ModeKeys.TRAIN, f"bn_{i}")
        logits = tf.contrib.layers.fully_connected(net, 1, activation_fn=tf.identity, scope="out")
    rate = tf.sigmoid(tf.reshape(logits, [-1]))
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"rate": rate})}
        return tf.estimator.EstimatorSpec(mode, {"rate": rate}, export_outputs=outputs)
    loss = tf.losses.log_loss(labels, rate) + tf.losses.get_regularization_loss()
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"auc": tf.metrics.auc(labels, rate)}
        )
    train_op = tf.contrib.layers.optimize_loss(
        loss,
        tf.contrib.framework.get_global_step(),
        learning_rate=0.05,
        optimizer="Adam",
        clip_gradients=5.0,
        learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(rate, step, 10, 0.9),
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


estimator = tf.estimator.Estimator(model_fn, FOLDER, params={"l2": 1e-4})
estimator.train(input_fn)
assert estimator.evaluate(input_fn)["auc"] > 0.9
receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(
    {"ids": tf.placeholder(tf.int64, [None, FIELDS], "ids")}
)
export = estimator.export_savedmodel(FOLDER + "/export", receiver)
predict = tf.contrib.predictor.from_saved_model(export.decode())
rates = predict({"ids": ids[:3]})["rate"]
expected = [row["rate"] for row, _ in zip(estimator.predict(input_fn), range(3))]  # noqa: B905
assert np.allclose(rates, expected, atol=1e-5), (rates, expected)
print("all done")
