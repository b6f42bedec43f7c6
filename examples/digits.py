"""Handwritten digits, from data to predictions: the whole job in two functions.

Trains a small convolutional network on scikit-learn's bundled digits, evaluates it, predicts a
few images and prints a table. Run it again: training is found finished, and only evaluation and
prediction happen. Kill it half-way and run it again: it goes on where it was.

    python examples/digits.py [--model_dir DIR] [--max_steps N]
"""

from __future__ import annotations

import argparse
import tempfile

from estimand.cli.quiet import quiet_start

with quiet_start():
    import keras
    import tensorflow as tf

import estimand as est
from estimand.engine.progress.progress import format_results_table


def load_digits():
    from sklearn.datasets import load_digits as bundled
    from sklearn.model_selection import train_test_split

    images, labels = bundled(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    return train_test_split(images, labels.astype("int64"), test_size=360, random_state=0)


TRAIN_X, TEST_X, TRAIN_Y, TEST_Y = load_digits()


def train_input_fn():
    data = tf.data.Dataset.from_tensor_slices(({"image": TRAIN_X}, TRAIN_Y))
    return data.shuffle(len(TRAIN_X)).repeat().batch(64)


def test_input_fn():
    return tf.data.Dataset.from_tensor_slices(({"image": TEST_X}, TEST_Y)).batch(64)


def model_fn(features, labels, mode, params):
    training = mode == est.ModeKeys.TRAIN
    network = keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(10),
        ]
    )
    logits = network(features["image"], training=training)
    predictions = {"digit": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions=predictions)

    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    accuracy.update_state(labels, logits)
    train_op = est.minimize(keras.optimizers.Adam(params["learning_rate"]), loss)
    return est.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=1000)
    args = parser.parse_args()

    config = est.RunConfig(
        model_dir=args.model_dir or tempfile.mkdtemp(prefix="digits-"),
        tf_random_seed=1,
        save_checkpoints_steps=500,
    )
    estimator = est.Estimator(model_fn, config=config, params={"learning_rate": 3e-3})
    print(f"Training {args.max_steps} steps into {estimator.model_dir}")
    estimator.train(train_input_fn, max_steps=args.max_steps)

    results = estimator.evaluate(test_input_fn)
    print(format_results_table(results, title=f"Evaluation on {len(TEST_X)} unseen digits"))

    print("\n  true  predicted  probability")
    for truth, prediction in zip(TEST_Y[:8], estimator.predict(test_input_fn), strict=False):
        digit = int(prediction["digit"])
        print(f"  {truth:4d}  {digit:9d}  {prediction['probabilities'][digit]:11.3f}")
    print(f"\nEverything is in {estimator.model_dir}: tensorboard --logdir {estimator.model_dir}")


if __name__ == "__main__":
    main()
