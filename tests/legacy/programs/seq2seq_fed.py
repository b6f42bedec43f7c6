"""Reversing sequences with attention: a hook feeds the placeholders of the input function."""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers, seq2seq

END, WORDS, UNITS = 1, 10, 8


def model_fn(mode, features, labels, params):
    source, target = features["input"], features["output"]
    rows = tf.shape(source)[0]
    start = tf.zeros([rows], dtype=tf.int64)
    shifted = tf.concat([tf.expand_dims(start, 1), target], 1)
    lengths = tf.reduce_sum(tf.to_int32(tf.not_equal(shifted, END)), 1)
    embedded = layers.embed_sequence(source, WORDS, UNITS, scope="embed")
    answers = layers.embed_sequence(shifted, WORDS, UNITS, scope="embed", reuse=True)
    cell = tf.contrib.rnn.GRUCell(num_units=UNITS)
    memory, _ = tf.nn.dynamic_rnn(cell, embedded, dtype=tf.float32)

    mechanism = seq2seq.BahdanauAttention(num_units=UNITS, memory=memory)
    attending = seq2seq.AttentionWrapper(
        tf.contrib.rnn.GRUCell(num_units=UNITS), mechanism, attention_layer_size=UNITS / 2
    )
    projected = tf.contrib.rnn.OutputProjectionWrapper(attending, WORDS)
    decoder = seq2seq.BasicDecoder(
        projected, seq2seq.TrainingHelper(answers, lengths), projected.zero_state(rows, tf.float32)
    )
    outputs = seq2seq.dynamic_decode(decoder, impute_finished=True, maximum_iterations=6)[0]
    tf.identity(outputs.sample_id[0], name="train_pred")
    weights = tf.to_float(tf.not_equal(shifted[:, :-1], END))
    loss = seq2seq.sequence_loss(outputs.rnn_output, target, weights=weights)
    train_op = layers.optimize_loss(
        loss, tf.train.get_global_step(), optimizer="Adam", learning_rate=params["rate"]
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_input_fn(fed):
    random = np.random.RandomState(1)

    def input_fn():
        source = tf.placeholder(tf.int64, shape=[None, None], name="input")
        target = tf.placeholder(tf.int64, shape=[None, None], name="output")
        tf.identity(source[0], "input_0")
        return {"input": source, "output": target}, None

    def feed_fn():
        words = random.randint(3, WORDS, size=(4, random.randint(3, 6)))
        ends = np.full((4, 1), END)
        fed.append(words.shape[1])
        return {
            "input:0": np.hstack([words, ends]),
            "output:0": np.hstack([words[:, ::-1], ends]),
        }

    return input_fn, feed_fn


def formatted(values):
    return f"read {len(values['input_0'])} words, wrote {len(values['train_pred'])}"


fed = []
input_fn, feed_fn = make_input_fn(fed)
estimator = tf.estimator.Estimator(model_fn, sys.argv[1], params={"rate": 0.01})
printing = tf.train.LoggingTensorHook(
    ["input_0", "train_pred"], every_n_iter=5, formatter=formatted
)
estimator.train(input_fn, hooks=[tf.train.FeedFnHook(feed_fn), printing], steps=6)
assert len(fed) == 6 and len(set(fed)) > 1, fed
print("all done")
