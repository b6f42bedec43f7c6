"""A recurrent language model whose hooks carry its state and write its learning rate."""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

BATCH, STEPS, SIZE, WORDS = 4, 5, 6, 11
TEXT = np.random.RandomState(0).randint(0, WORDS, [BATCH, STEPS * 12 + 1])
LINE = tf.constant_initializer(np.linspace(-0.4, 0.4, 2 * SIZE * 4 * SIZE).astype("float32"))


def input_fn():
    def batches():
        for i in range(12):
            begin = i * STEPS
            yield TEXT[:, begin : begin + STEPS], TEXT[:, begin + 1 : begin + STEPS + 1]

    shape = [BATCH, STEPS]
    return tf.data.Dataset.from_generator(batches, (tf.int32, tf.int32), (shape, shape))


def model_fn(features, labels, mode, params):
    model = params["model"]
    cell = tf.nn.rnn_cell.BasicLSTMCell(SIZE, forget_bias=0.0)
    table = tf.get_variable(
        "embedding",
        [WORDS, SIZE],
        initializer=tf.constant_initializer(np.sin(np.arange(WORDS * SIZE)).astype("float32")),
    )
    state = cell.zero_state(BATCH, tf.float32)
    model["initial_state"] = state
    with tf.variable_scope("rnn", initializer=LINE):
        outputs = []
        for t in range(STEPS):
            if t > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(tf.nn.embedding_lookup(table, features[:, t]), state)
            outputs.append(output)
    model["final_state"] = state
    logits = tf.layers.dense(
        tf.stack(outputs, 1), WORDS, kernel_initializer=tf.constant_initializer(0.05)
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=tf.argmax(logits, -1))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    perplexity = tf.metrics.mean(loss)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"cost": perplexity})
    rate = tf.get_variable("lr", [], initializer=tf.constant_initializer(1.0), trainable=False)
    model["new_lr"] = tf.placeholder(tf.float32, [], name="new_learning_rate")
    model["lr_update"] = tf.assign(rate, model["new_lr"])
    trained = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, trained), 5.0)
    train_op = tf.train.GradientDescentOptimizer(rate).apply_gradients(
        zip(gradients, trained),  # noqa: B905
        global_step=tf.train.get_or_create_global_step(),
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class CarryState(tf.train.SessionRunHook):
    def __init__(self, model):
        self.model = model

    def after_create_session(self, session, coord):
        state = self.model["initial_state"]
        self.state = session.run(state)

    def before_run(self, run_context):
        initial = self.model["initial_state"]
        feed = {initial.c: self.state.c, initial.h: self.state.h}
        return tf.train.SessionRunArgs(self.model["final_state"], feed_dict=feed)

    def after_run(self, run_context, run_values):
        self.state = run_values.results


class DecayRate(tf.train.SessionRunHook):
    def __init__(self, model, every):
        self.model, self.every, self.count = model, every, 0

    def after_create_session(self, session, coord):
        session.run(self.model["lr_update"], {self.model["new_lr"]: 0.8})

    def after_run(self, run_context, run_values):
        self.count += 1
        if self.count % self.every == 0:
            run_context.session.run(
                self.model["lr_update"],
                {self.model["new_lr"]: 0.8 * 0.5 ** (self.count // self.every)},
            )


class Costs(tf.train.SessionRunHook):
    def __init__(self):
        self.seen = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.losses.get_losses()[0])

    def after_run(self, run_context, run_values):
        self.seen.append(float(run_values.results))


def main(model_dir):
    model = {}
    holder = type("Params", (dict,), {"__deepcopy__": lambda self, memo: self})(model=model)
    estimator = tf.estimator.Estimator(model_fn, model_dir, params=holder)
    costs = Costs()
    for _ in range(2):
        estimator.train(input_fn, hooks=[CarryState(model), DecayRate(model, 4), costs])
    evaluated = estimator.evaluate(input_fn, hooks=[CarryState(model)])
    print(
        json.dumps(
            {
                "costs": costs.seen,
                "rate": float(estimator.get_variable_value("lr")),
                "cost": float(evaluated["cost"]),
                "steps": int(evaluated["global_step"]),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
