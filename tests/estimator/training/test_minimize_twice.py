"""est.minimize more than once in a model function."""

import numpy as np
import pytest
import tensorflow as tf

import estimand as est


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": np.ones([4, 1], "float32")}, np.zeros([4, 1], "f")))


@pytest.mark.parametrize("eager", [False, True])
def test_two_optimizers_make_one_step(tmp_path, eager: bool) -> None:
    def model_fn(features, labels, mode):
        import keras

        v1 = tf.compat.v1
        ones = v1.ones_initializer()
        a, b = v1.get_variable("a", [1], initializer=ones), v1.get_variable("b", [1])
        loss = tf.reduce_mean(tf.square(features["x"] * a - labels)) + tf.reduce_sum(b * 0.0)
        train_op = tf.group(
            est.minimize(keras.optimizers.SGD(0.25), loss, [a]),
            est.minimize(v1.train.GradientDescentOptimizer(0.1), loss, [b]),
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = est.RunConfig(model_dir=str(tmp_path), run_eagerly=eager)
    estimator = est.Estimator(model_fn, config=config)
    estimator.train(lambda: input_fn().repeat(), max_steps=3)
    assert estimator.get_variable_value("global_step") == 3
    # d/da a^2 = 2a, so each step halves it.
    np.testing.assert_allclose(estimator.get_variable_value("a"), [0.125], rtol=1e-6)
