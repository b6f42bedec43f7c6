"""What was learned on one task helps with another: from the digits 0 to 4 to the digits 5 to 9.

A network is trained on many images of the first five digits. Of the others there are only eight
each: trained on them alone, a network of the same kind does worse than one whose first layers are
kept from the first task, frozen, and whose last layer only is new.

    python examples/transfer_learning.py [--model_dir DIR] [--max_steps N]
"""

from __future__ import annotations

import argparse
import tempfile

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import estimand as est

images, digits = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
FEW = np.concatenate([np.flatnonzero(digits == digit)[:8] for digit in range(5, 10)])
OTHERS = np.setdiff1d(np.flatnonzero(digits >= 5), FEW)


def read(rows: np.ndarray):
    """An input function of these images; the labels are 0 to 4 in either task."""

    def input_fn(mode: str) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((images[rows], digits[rows] % 5))
        if mode == est.ModeKeys.TRAIN:
            data = data.shuffle(len(rows)).repeat()
        return data.batch(40)

    return input_fn


def network() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input([8, 8, 1]),
            keras.layers.Conv2D(16, 3, activation="relu", name="edges"),
            keras.layers.Conv2D(32, 3, activation="relu", name="shapes"),
            keras.layers.Flatten(),
            keras.layers.Dense(5, name="digit"),
        ]
    )


def estimator(model: keras.Model, model_dir: str) -> est.Estimator:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss, metrics=["accuracy"])
    return est.keras.model_to_estimator(model, model_dir=model_dir)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=300)
    args = parser.parse_args()
    base = args.model_dir or tempfile.mkdtemp(prefix="transfer-")
    keras.utils.set_random_seed(1)

    first = estimator(network(), f"{base}/first")
    first.train(read(np.flatnonzero(digits < 5)), max_steps=args.max_steps)

    alone = estimator(network(), f"{base}/alone")
    alone.train(read(FEW), max_steps=args.max_steps)

    known = est.keras.load(first.model_dir)
    frozen = est.fine_tuning.freeze(known, "^edges$", "^shapes$")
    last = keras.layers.Dense(5, name="new_digit")(known.layers[-2].output)
    tuned = estimator(keras.Model(known.inputs, last), f"{base}/tuned")
    tuned.train(read(FEW), max_steps=args.max_steps)

    print(f"From {len(FEW)} images, on {len(OTHERS)} that no model has seen:")
    for name, model in {"begun anew": alone, f"{' and '.join(frozen)} kept": tuned}.items():
        print(f"  {name:<24}{model.evaluate(read(OTHERS))['accuracy']:.1%} right")


if __name__ == "__main__":
    main()
