"""estimator + experiment + datasets, as a user wrote it in 2018; the net and the data are small."""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.contrib.learn import learn_runner

_BATCH_SIZE = 8
FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_string("save_dir", None, "where checkpoints go")
tf.app.flags.DEFINE_bool("runner", False, "let learn_runner run it")


def input_fn(data_path, batch_size, is_training):
    random = np.random.RandomState(len(data_path))
    images = random.rand(40, 6, 6, 3).astype(np.float32)
    labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    if is_training:
        dataset = dataset.shuffle(40).repeat()
    iterator = dataset.batch(batch_size).make_one_shot_iterator()
    features, labels = iterator.get_next()
    return {"input": features}, labels


def model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    x = tf.layers.conv2d(features["input"], 4, (3, 3), use_bias=False, name="block1_conv1")
    x = tf.layers.batch_normalization(x, training=is_training, name="block1_conv1_bn")
    x = tf.nn.relu(x, name="block1_conv1_act")
    logits = tf.layers.dense(tf.reduce_max(x, axis=(1, 2)), params.n_classes)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, axis=-1))
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    optimizer = tf.train.RMSPropOptimizer(params.learning_rate, 0.9)
    with tf.control_dependencies(update_ops):
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def experiment_fn(run_config, params):
    estimator = tf.estimator.Estimator(model_fn=model_fn, config=run_config, params=params)

    def train_input_fn():
        return input_fn(data_path="train", batch_size=_BATCH_SIZE, is_training=True)

    def eval_input_fn():
        return input_fn(data_path="val", batch_size=_BATCH_SIZE, is_training=False)

    experiment = tf.contrib.learn.Experiment(
        estimator=estimator,
        train_input_fn=train_input_fn,
        eval_input_fn=eval_input_fn,
        train_steps=params.train_steps,
        min_eval_frequency=params.min_eval_frequency,
    )
    return experiment


def main(_):
    params = tf.contrib.training.HParams(
        learning_rate=0.002, n_classes=2, train_steps=20, min_eval_frequency=10
    )
    run_config = tf.contrib.learn.RunConfig(
        model_dir=FLAGS.save_dir, save_checkpoints_steps=10, keep_checkpoint_max=5
    )
    if FLAGS.runner:
        learn_runner.run(
            experiment_fn=experiment_fn,  # first class function
            run_config=run_config,
            schedule="train_and_evaluate",
            hparams=params,
        )
    else:
        experiment = experiment_fn(run_config=run_config, params=params)
        experiment.train_and_evaluate()
    print("all done")


if __name__ == "__main__":
    sys.exit(tf.app.run())
