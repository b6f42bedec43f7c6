"""What notes on TensorFlow 1 show around Estimators: sessions, savers, iterators, eager functions.

Written for TensorFlow 1; it is run by `estimand run`.
"""

import argparse
import os
import sys

import numpy as np
import tensorflow as tf
import tensorflow.contrib.eager as tfe

FLAGS = None


def read_csv():
    filename = os.path.join(FLAGS.dataDir, "file1.csv")
    with open(filename, "w") as file:
        file.write("a,b,c,d,e\n" + "".join(f"{i},1,{i * 2},3,{i * 4}\n" for i in range(4)))
    record_defaults = [[0.0]] * 2  # Only provide defaults for the selected columns
    dataset = tf.contrib.data.CsvDataset(
        [filename], record_defaults, header=True, select_cols=[2, 4]
    )
    iterator = dataset.make_one_shot_iterator()
    with tf.Session() as sess:
        first = sess.run(iterator.get_next())
    assert first == (0.0, 0.0), first


def eager_in_graph():
    def my_py_func(x):
        x = tf.matmul(x, x)  # You can use tf ops
        assert tf.executing_eagerly()  # but it's eager!
        return x

    with tf.Session() as sess:
        x = tf.placeholder(dtype=tf.float32)
        # Call eager function in graph!
        pf = tfe.py_func(my_py_func, [x], tf.float32)
        assert sess.run(pf, feed_dict={x: [[2.0]]}) == [[4.0]]


def save_and_restore():
    tf.reset_default_graph()
    W = tf.get_variable("W", shape=[784, 256], initializer=tf.contrib.layers.xavier_initializer())
    model_path = os.path.join(FLAGS.dataDir, "model")
    with tf.Session() as sess:
        init = tf.global_variables_initializer()
        sess.run(init)
        value = sess.run(W)
        limit = np.sqrt(6.0 / (784 + 256))
        assert abs(value).max() <= limit and abs(value).max() > 0.99 * limit
        saver = tf.train.Saver()
        saver.save(sess, model_path)
    with tf.Session() as sess:
        saver.restore(sess, tf.train.latest_checkpoint(FLAGS.dataDir))
        np.testing.assert_array_equal(sess.run(W), value)


def keep_the_place_of_an_iterator():
    tf.reset_default_graph()
    iterator = tf.data.Dataset.range(10).make_initializable_iterator()
    next_element = iterator.get_next()
    # Create saveable object from iterator.
    saveable = tf.contrib.data.make_saveable_from_iterator(iterator)
    # Save the iterator state by adding it to the saveable objects collection.
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
    saver = tf.train.Saver()
    path_to_checkpoint = os.path.join(FLAGS.dataDir, "iterator")
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        assert [sess.run(next_element) for _ in range(3)] == [0, 1, 2]
        saver.save(sess, path_to_checkpoint)
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        saver.restore(sess, path_to_checkpoint)
        assert sess.run(next_element) == 3


def model_function(x, y):
    hidden = tf.layers.dense(x, 4, activation=tf.nn.tanh)
    assert hidden.shape[1].value == 4
    return tf.losses.mean_squared_error(y, tf.layers.dense(hidden, 1))


def monitored_training():
    tf.reset_default_graph()
    x = np.linspace(-1, 1, 32).astype(np.float32)[:, None]
    dataset = tf.data.Dataset.from_tensor_slices((x, 2 * x)).shuffle(32).batch(8).repeat(3)
    next_example, next_label = dataset.make_one_shot_iterator().get_next()
    loss = model_function(next_example, next_label)
    step = tf.train.get_or_create_global_step()
    training_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
    counted = 0
    with tf.train.MonitoredTrainingSession() as sess:
        while not sess.should_stop():
            sess.run(training_op)
            counted += 1
    assert counted == 12, counted


def both_directions():
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, [None, 5, 3])
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        forward, backward = sess.run(outputs, {x: np.ones((2, 5, 3))})
    assert forward.shape == backward.shape == (2, 5, 4)


def main(_):
    read_csv()
    eager_in_graph()
    save_and_restore()
    keep_the_place_of_an_iterator()
    monitored_training()
    both_directions()
    print("all done", sys.argv[0].endswith("sessions.py"))


if __name__ == "__main__":
    parse = argparse.ArgumentParser()
    parse.add_argument("--dataDir", type=str, default="/tmp", help="Directory for data")
    FLAGS, unparsed = parse.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0], *unparsed])
