"""Handwritten digits, sorted into heaps by nobody: k-means, and how pure the heaps are.

No label is shown to the model. Afterwards each heap is called by the digit it holds most of, and
that is how it can be told how well they were sorted.

    python examples/kmeans.py [--model_dir DIR] [--max_steps N] [--heaps K]
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import estimand as est

IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = (IMAGES / 16.0).astype("float32")


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(IMAGES).shuffle(len(IMAGES)).repeat().batch(256)


def all_images() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(IMAGES)


def drawing(image: np.ndarray) -> list[str]:
    """The 8 x 8 pixels of an image as text."""
    return ["".join(" .:oO@"[int(pixel * 5.99)] * 2 for pixel in row) for row in image]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=300)
    parser.add_argument("--heaps", type=int, default=12)
    args = parser.parse_args()

    kmeans = est.KMeans(
        args.heaps,
        model_dir=args.model_dir or tempfile.mkdtemp(prefix="kmeans-"),
        initial_clusters="kmeans_plus_plus",
        config=est.RunConfig(tf_random_seed=1),
    )
    kmeans.train(batches, max_steps=args.max_steps)

    heap = np.array(list(kmeans.predict_cluster_index(all_images)))
    right = 0
    for number, center in enumerate(kmeans.cluster_centers()):
        counts = np.bincount(DIGITS[heap == number], minlength=10)
        right += counts.max()
        print(f"\nHeap {number}: {counts.sum()} images, {counts.max()} of them a {counts.argmax()}")
        print("\n".join(drawing(center.reshape(8, 8))))
    print(f"\n{right / len(DIGITS):.0%} of the images lie in a heap of their own digit.")


if __name__ == "__main__":
    main()
