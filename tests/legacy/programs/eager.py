"""Eager execution as it was in TensorFlow 1.10; it is run by `estimand run`."""

import sys

import tensorflow as tf
import tensorflow.contrib.eager as tfe

tf.enable_eager_execution()

w = tfe.Variable(10)
assert w.numpy() == 10

m = tfe.metrics.Mean("loss")
m(0)
m(5)
assert m.result().numpy() == 2.5
m([8, 9])
assert m.result().numpy() == 5.5

x = tfe.Variable(10.0)
checkpoint = tf.train.Checkpoint(x=x)  # save as "x"
x.assign(2.0)  # Assign a new value to the variables and save.
save_path = checkpoint.save(sys.argv[1] + "/ckpt/")
x.assign(11.0)  # Change the variable after saving.
# Restore values from the checkpoint
checkpoint.restore(save_path)
assert x.numpy() == 2.0


def square(x):
    return tf.multiply(x, x)


grad = tfe.gradients_function(square)
assert [g.numpy() for g in grad(3.0)] == [6.0]

global_step = tf.train.get_or_create_global_step()
writer = tf.contrib.summary.create_file_writer(sys.argv[1] + "/logs")
writer.set_as_default()
for _ in range(10):
    global_step.assign_add(1)
    # Must include a record_summaries method
    with tf.contrib.summary.record_summaries_every_n_global_steps(5):
        tf.contrib.summary.scalar("loss", 1.0 / tf.cast(global_step, tf.float32))
writer.flush()
print("all done")
