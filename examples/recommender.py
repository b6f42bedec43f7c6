"""Who will like what: vectors of users and items, on one machine or with parameter servers.

Each user and each item has a row in a table; how well two fit is the product of their rows. In
earnest the tables are large: then parameter servers hold them, and workers fetch the rows of
their batches. The program is the same.

    python examples/recommender.py [--model_dir DIR] [--max_steps N]
    estimand launch --ps 1 --workers 2 --evaluator examples/recommender.py --model_dir runs/likes
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

import estimand as est

USERS, ITEMS, ROWS = 300, 80, 40_000


def likes() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Made-up: a user likes what is of a kind with its taste, mostly."""
    random = np.random.default_rng(0)
    taste, kind = random.normal(size=(USERS, 3)), random.normal(size=(ITEMS, 3))
    user, item = random.integers(0, USERS, ROWS), random.integers(0, ITEMS, ROWS)
    liked = (taste[user] * kind[item]).sum(axis=1) + random.normal(0, 0.3, ROWS) > 0
    return {"user": user, "item": item}, liked.astype("int64")


TABLE, LIKED = likes()


def input_fn(mode: str) -> tf.data.Dataset:
    part = slice(0, 36_000) if mode == est.ModeKeys.TRAIN else slice(36_000, None)
    rows = {name: values[part] for name, values in TABLE.items()}
    data = tf.data.Dataset.from_tensor_slices((rows, LIKED[part]))
    return (data.shuffle(ROWS).repeat() if mode == est.ModeKeys.TRAIN else data).batch(256)


def model_fn(features, labels, mode, params):
    v1 = tf.compat.v1
    users = v1.get_variable("users/embedding", [USERS, params["width"]])
    items = v1.get_variable("items/embedding", [ITEMS, params["width"]])
    fit = tf.gather(users, features["user"]) * tf.gather(items, features["item"])
    # An optimizer of v1 sends the rows that a batch has touched; one of Keras the whole table.
    return est.BinaryClassHead().create_estimator_spec(
        features,
        mode,
        tf.reduce_sum(fit, axis=1, keepdims=True),
        labels,
        optimizer=v1.train.AdamOptimizer(0.02),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="one that all processes see")
    parser.add_argument("--max_steps", type=int, default=600)
    args = parser.parse_args()
    role = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type", "alone")
    model_dir = args.model_dir or tempfile.mkdtemp(prefix="likes-")

    estimator = est.Estimator(model_fn, model_dir, params={"width": 8})
    metrics, _ = est.train_and_evaluate(
        estimator,
        est.TrainSpec(input_fn, max_steps=args.max_steps),
        est.EvalSpec(input_fn, steps=None),
    )
    if metrics:  # in a cluster those that evaluate have them: estimand launch --evaluator
        print(f"{role}: area under the curve {metrics['auc']:.3f} on unseen rows")
    if role in ("alone", "chief"):
        items = estimator.get_variable_value("items/embedding")
        print(f"{role}: {estimator.get_variable_value('global_step')} steps")
        print(f"{role}: nearest to item 7 are {np.argsort(-(items @ items[7]))[:4].tolist()}")


if __name__ == "__main__":
    main()
