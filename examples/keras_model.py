"""A Keras model as an estimator, and back: convert, train, freeze and fine-tune, export, load.

python examples/keras_model.py
"""

from __future__ import annotations

import argparse
import tempfile

from estimand.cli.quiet import quiet_start

with quiet_start():
    import keras
    import numpy as np
    import tensorflow as tf

import estimand as est

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(2000, 8)).astype("float32")
Y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype("int64")


def train_input_fn() -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices((X[:1600], Y[:1600]))
    return data.shuffle(1600).repeat().batch(64)


def test_input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X[1600:], Y[1600:])).batch(100)


def make_model() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input([8]),
            keras.layers.Dense(32, activation="relu", name="low"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(16, activation="relu", name="high"),
            keras.layers.Dense(1, name="score"),
        ]
    )
    compile_model(model)
    return model


def compile_model(model: keras.Model) -> None:
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=1000)
    args = parser.parse_args()
    base = args.model_dir or tempfile.mkdtemp(prefix="keras-")

    keras.utils.set_random_seed(1)
    estimator = est.keras.model_to_estimator(
        make_model(), config=est.RunConfig(model_dir=f"{base}/first", tf_random_seed=1)
    )
    estimator.train(train_input_fn, max_steps=args.max_steps)
    accuracy = estimator.evaluate(test_input_fn)["accuracy"]
    print(f"Trained {args.max_steps} steps: accuracy {accuracy:.3f} on unseen rows")

    # The weights come back as a Keras model, of which two layers are trained on, carefully.
    model = est.keras.load(estimator.model_dir)
    print(f"Frozen: {', '.join(est.fine_tuning.freeze(model, '^low$', '^batch'))}")
    compile_model(model)
    groups = {"^score/": keras.optimizers.Adam(1e-3), ".": keras.optimizers.SGD(1e-4)}
    tuned = est.keras.model_to_estimator(
        model, model_dir=f"{base}/tuned", optimizer=est.fine_tuning.Groups(groups)
    )
    tuned.train(train_input_fn, max_steps=200)
    print(f"Fine-tuned: accuracy {tuned.evaluate(test_input_fn)['accuracy']:.3f}")

    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 8])})
    path = tuned.export_saved_model(f"{base}/export", receiver_fn).decode()
    with est.load_model(path) as served:
        answer = served(x=X[:1])["score"][0, 0]
    again = est.keras.load(path).predict(X[:1], verbose=0)[0, 0]
    print(f"The export says {answer:.4f}, the Keras model loaded from it {again:.4f}")


if __name__ == "__main__":
    main()
