"""Hooks that feed a learning rate, run the session, stop, and evaluate with moving averages."""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

X = np.random.RandomState(0).rand(40, 3).astype("float32")
Y = X.dot([[1.0], [2.0], [3.0]]).astype("float32")


class FeedsRate(tf.train.SessionRunHook):
    def __init__(self):
        self.rate, self.losses = 0.5, []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs("seen_loss:0", feed_dict={"rate:0": self.rate})

    def after_run(self, run_context, run_values):
        self.rate *= 0.9
        self.losses.append(float(run_values.results))


class Looks(tf.train.SessionRunHook):
    def __init__(self):
        self.seen = []

    def begin(self):
        self.norm = tf.global_norm(tf.trainable_variables())
        self.step = tf.train.get_or_create_global_step()

    def after_create_session(self, session, coord):
        self.look(session)

    def after_run(self, run_context, run_values):
        if self.look(run_context.session) >= 9:
            run_context.request_stop()

    def end(self, session):
        self.seen.append(float(session.run("w:0").sum()))

    def look(self, session):
        step, norm = session.run([self.step, self.norm])
        self.seen.append([int(step), float(norm)])
        return step


class Averages(tf.train.SessionRunHook):
    def begin(self):
        averages = tf.train.ExponentialMovingAverage(0.9)
        self.saver = tf.train.Saver(averages.variables_to_restore(tf.trainable_variables()))

    def after_create_session(self, session, coord):
        self.saver.restore(session, tf.train.latest_checkpoint(sys.argv[1]))


def model_fn(features, labels, mode, params):
    w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer([0.1, 0.2, 0.3]))
    y = tf.matmul(features, w) + tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, y)
    loss = tf.identity(tf.reduce_mean(tf.square(y - labels)), "seen_loss")
    optimizer = tf.train.MomentumOptimizer(tf.placeholder_with_default(0.1, [], "rate"), 0.5)
    gradients, variables = zip(*optimizer.compute_gradients(loss))  # noqa: B905
    gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
    tf.summary.scalar("norm", norm)
    pairs = zip(gradients, variables)  # noqa: B905
    train_op = optimizer.apply_gradients(pairs, tf.train.get_global_step())
    if mode == tf.estimator.ModeKeys.TRAIN:
        with tf.control_dependencies([train_op]):
            train_op = tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())
    return tf.estimator.EstimatorSpec(
        mode,
        y,
        loss,
        train_op,
        {"error": tf.metrics.mean_absolute_error(labels, y)},
        evaluation_hooks=[Averages()] if params["averages"] else [],
    )


def input_fn():
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(8)
    return tf.data.make_one_shot_iterator(batches).get_next()


def evaluated(model):
    return {name: float(value) for name, value in model.evaluate(input_fn, steps=5).items()}


rate, looks = FeedsRate(), Looks()
model = tf.estimator.Estimator(model_fn, sys.argv[1], params={"averages": True})
other = tf.estimator.Estimator(model_fn, sys.argv[1], params={"averages": False})
model.train(input_fn, max_steps=20, hooks=[rate, looks])
numbers = {"as trained": evaluated(other), "averages": evaluated(model)}
numbers["predicted"] = next(model.predict(input_fn)).tolist()  # of no averages again
model.train(input_fn, steps=3, hooks=[rate])  # nor is training
numbers.update(losses=rate.losses, seen=looks.seen, names=model.get_variable_names())
print(json.dumps(numbers))
