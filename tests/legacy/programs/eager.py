"""Eager execution as it was in TensorFlow 1.10; it is run by `estimand run`."""

import os
import sys
import time

import numpy as np
import tensorflow as tf
import tensorflow.contrib.eager as tfe

tf.enable_eager_execution()
assert tf.executing_eagerly()

x = [[2.0]]
assert tf.matmul(x, x).numpy() == [[4.0]]
a = tf.constant([[1, 2], [3, 4]])
b = tf.add(a, 1)
assert (a * b).numpy().tolist() == [[2, 6], [12, 20]]
assert np.matmul(a, b).tolist() == [[10, 13], [22, 29]]

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
# The second-order derivative of square; the third-order derivative is None
gradgrad = tfe.gradients_function(lambda x: grad(x)[0])
assert [g.numpy() for g in gradgrad(3.0)] == [2.0]
assert tfe.gradients_function(lambda x: gradgrad(x)[0])(3.0) == [None]


# With flow control:
def abs(x):
    return x if x > 0.0 else -x


assert tfe.gradients_function(abs)(3.0)[0].numpy() == 1.0
assert tfe.gradients_function(abs)(-3.0)[0].numpy() == -1.0


# f(x, y) = (x ^ 3) * y - x * (y ^ 2)
def f(x, y):
    return x * x * x * y - x * y * y


# Obtain a function that returns the function value and the 1st order gradients.
val_grads_fn = tfe.value_and_gradients_function(f)
# Invoke the value-and-gradients function.
f_val, (x_grad, y_grad) = val_grads_fn(2.0, 3.0)
assert f_val.numpy() == (2**3) * 3 - 2 * (3**2)
assert x_grad.numpy() == 3 * (2**2) * 3 - 3**2
assert y_grad.numpy() == (2**3) - 2 * 2 * 3


@tf.custom_gradient
def clip_gradient_by_norm(x, norm):
    y = tf.identity(x)

    def grad_fn(dresult):
        return [tf.clip_by_norm(dresult, norm), None]

    return y, grad_fn


clipped = tfe.gradients_function(lambda x: 10.0 * clip_gradient_by_norm(x, 2.0))
assert clipped(3.0)[0].numpy() == 2.0


def log1pexp(x):
    return tf.log(1 + tf.exp(x))


grad_log1pexp = tfe.gradients_function(log1pexp)
assert grad_log1pexp(0.0)[0].numpy() == 0.5
# However, x = 100 fails because of numerical instability.
assert np.isnan(grad_log1pexp(100.0)[0].numpy())


def line_search_step(fn, init_x, rate=1.0):
    with tf.GradientTape() as tape:
        # Variables are automatically recorded, but manually watch a tensor
        tape.watch(init_x)
        value = fn(init_x)
    grad = tape.gradient(value, init_x)
    grad_norm = tf.reduce_sum(grad * grad)
    init_value = value
    while value > init_value - rate * grad_norm:
        x = init_x - rate * grad
        value = fn(x)
        rate /= 2.0
    return x, value


assert [v.numpy() for v in line_search_step(square, tf.constant(3.0))] == [0.0, 0.0]

w = tf.Variable([[1.0]])
with tf.GradientTape() as tape:
    loss = w * w
assert tape.gradient(loss, w).numpy() == [[2.0]]
try:
    tape.gradient(loss, w)
except RuntimeError:
    pass
else:
    raise AssertionError("a tape was played twice")

# A toy dataset of points around 3 * x + 2
NUM_EXAMPLES = 1000
training_inputs = tf.random_normal([NUM_EXAMPLES])
noise = tf.random_normal([NUM_EXAMPLES])
training_outputs = training_inputs * 3 + 2 + noise


def prediction(input, weight, bias):
    return input * weight + bias


# A loss function using mean-squared error
def loss_of_weights(weights, biases):
    error = prediction(training_inputs, weights, biases) - training_outputs
    return tf.reduce_mean(tf.square(error))


# Return the derivative of loss with respect to weight and bias
def grad_of_weights(weights, biases):
    with tf.GradientTape() as tape:
        loss_value = loss_of_weights(weights, biases)
    return tape.gradient(loss_value, [weights, biases])


learning_rate = 0.01
# Start with arbitrary values for W and B on the same batch of data
W = tfe.Variable(5.0)
B = tfe.Variable(10.0)
for _ in range(200):
    dW, dB = grad_of_weights(W, B)
    W.assign_sub(dW * learning_rate)
    B.assign_sub(dB * learning_rate)
assert abs(W.numpy() - 3) < 0.4 and abs(B.numpy() - 2) < 0.4


class Model(tf.keras.Model):
    def __init__(self):
        super(Model, self).__init__()  # noqa: UP008
        self.W = tfe.Variable(5.0, name="weight")
        self.B = tfe.Variable(5.0, name="bias")

    def call(self, inputs):
        return inputs * self.W + self.B


# The loss function to be optimized
def loss_of_line(model, inputs, targets):
    error = model(inputs) - targets
    return tf.reduce_mean(tf.square(error))


def grad_of_line(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = loss_of_line(model, inputs, targets)
    return tape.gradient(loss_value, [model.W, model.B])


model = Model()
optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.01)
for _ in range(200):
    grads = grad_of_line(model, training_inputs, training_outputs)
    optimizer.apply_gradients(
        zip(grads, [model.W, model.B]),  # noqa: B905
        global_step=tf.train.get_or_create_global_step(),
    )
assert abs(model.W.numpy() - 3) < 0.3 and abs(model.B.numpy() - 2) < 0.3
assert tf.train.get_or_create_global_step().numpy() == 200
assert "{:.3f}".format(loss_of_line(model, training_inputs, training_outputs)) < "1.500"  # noqa: UP032

# tf.train.Checkpoint of a model, its optimizer and the step
checkpoint_dir = sys.argv[1] + "/model/"
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt")
root = tf.train.Checkpoint(
    optimizer=optimizer, model=model, optimizer_step=tf.train.get_or_create_global_step()
)
root.save(file_prefix=checkpoint_prefix)
kept = model.W.numpy()
model.W.assign(7.0)
root.restore(tf.train.latest_checkpoint(checkpoint_dir))
assert model.W.numpy() == kept
tf.train.get_or_create_global_step().assign(0)

# A convolutional net on images; `input_shape` is that of the flat rows.
data_format = "channels_last"
net = tf.keras.Sequential(
    [
        tf.keras.layers.Reshape(target_shape=[1, 28, 28], input_shape=(28 * 28,)),
        tf.keras.layers.Conv2D(
            4, 5, padding="same", data_format=data_format, activation=tf.nn.relu
        ),
        tf.keras.layers.MaxPooling2D((2, 2), (2, 2), padding="same", data_format=data_format),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(16, activation=tf.nn.relu),
        tf.keras.layers.Dropout(0.4),
        tf.keras.layers.Dense(10),
    ]
)
assert net(tf.zeros([1, 784])).numpy().tolist() == [[0.0] * 10]
train_x = np.random.RandomState(0).rand(64, 784).astype(np.float32)
train_y = np.arange(64) % 10
dataset_train = tf.data.Dataset.from_tensor_slices((train_x, train_y))
dataset_train = dataset_train.shuffle(60000).repeat(2).batch(32)


def loss_of_net(model, x, y):
    prediction = model(x)
    return tf.losses.sparse_softmax_cross_entropy(labels=y, logits=prediction)


def grad_of_net(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = loss_of_net(model, inputs, targets)
    return tape.gradient(loss_value, model.variables)


optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.1)
x, y = iter(dataset_train).next()
assert x.numpy().shape == (32, 784) and y.numpy().shape == (32,)
initial = loss_of_net(net, train_x, train_y)
with tf.device("/cpu:0"):
    for i, (x, y) in enumerate(dataset_train):
        if i % 2:
            # minimize() is equivalent to the grad() and apply_gradients() calls.
            optimizer.minimize(
                lambda x=x, y=y: loss_of_net(net, x, y),
                global_step=tf.train.get_or_create_global_step(),
            )
            continue
        grads = grad_of_net(net, x, y)
        optimizer.apply_gradients(
            zip(grads, net.variables),  # noqa: B905
            global_step=tf.train.get_or_create_global_step(),
        )
assert tf.train.get_or_create_global_step().numpy() == 4
assert loss_of_net(net, train_x, train_y) < initial
tf.train.get_or_create_global_step().assign(0)


def measure(x, steps):
    # TensorFlow initializes a GPU the first time it's used, exclude from timing.
    tf.matmul(x, x)
    start = time.time()
    for _ in range(steps):
        x = tf.matmul(x, x)
    _ = x.numpy()
    end = time.time()
    return end - start


with tf.device("/cpu:0"):
    assert measure(tf.random_normal((10, 10)), 2) > 0
# Run on GPU, if available:
if tfe.num_gpus() > 0:
    with tf.device("/gpu:0"):
        assert measure(tf.random_normal((10, 10)), 2) > 0
x_cpu = tf.random_normal([10, 10]).cpu()
assert tf.matmul(x_cpu, x_cpu).shape == (10, 10)

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
