"""TensorFlow Ranking's groupwise model and its estimator, on made-up lists of documents."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

random = np.random.RandomState(0)
documents = random.normal(size=(64, 5, 3)).astype("float32")
relevance = (documents.sum(2) > 0.5).astype("float32")


def input_fn():
    features = {"document": documents}
    return tf.data.Dataset.from_tensor_slices((features, relevance)).repeat(8).batch(16)


def score_fn(context_features, group_features, mode, params, config):
    hidden = tf.compat.v1.layers.flatten(group_features["document"])
    hidden = tf.compat.v1.layers.dense(hidden, 8, activation=tf.nn.relu)
    return tf.compat.v1.layers.dense(hidden, 1)


def transform_fn(features, mode):
    return {}, features


loss_fn = tfr.losses.make_loss_fn("approx_ndcg_loss")
metrics = {"ndcg@3": tfr.metrics.make_ranking_metric_fn("ndcg", topn=3)}


def train_op_fn(loss):
    step = tf.compat.v1.train.get_global_step()
    return tf.compat.v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)


head = tfr.head.create_ranking_head(loss_fn, eval_metric_fns=metrics, train_op_fn=train_op_fn)
model_fn = tfr.model.make_groupwise_ranking_fn(score_fn, 1, head, transform_fn)
estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
estimator.train(input_fn, max_steps=30)
print(estimator.evaluate(input_fn))
