"""Two objectives on shared layers: the chance of a click, and of an order after it.

Both heads read the same hidden layers, so what the many clicks teach helps with the few orders.
Each head has a layer of its own on top, and `head_weights` says how much each loss counts.

    python examples/multi_task.py [--model_dir DIR] [--max_steps N] [--order_weight W]
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
from estimand.engine.progress.progress import format_results_table

FEATURES = 12


def visits(count: int, seed: int):
    """Made-up visits to a shop: who clicks is interested, who orders must also afford it."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    interest = x[:, 0] + np.tanh(2 * x[:, 1] * x[:, 2])
    click = random.random(count) < 1 / (1 + np.exp(-3 * interest))
    order = click & (random.random(count) < 1 / (1 + np.exp(2 - 2 * interest - 2 * x[:, 3])))
    return x, {"click": click.astype("int64"), "order": order.astype("int64")}


def input_fn(mode: str) -> tf.data.Dataset:
    """Labels are a dict: one entry per head, by its name."""
    x, labels = visits(20_000 if mode == est.ModeKeys.TRAIN else 4_000, seed=len(mode))
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, labels))
    if mode == est.ModeKeys.TRAIN:
        data = data.shuffle(len(x)).repeat()
    return data.batch(256)


def model_fn(features, labels, mode, params):
    head = est.MultiHead(
        [est.BinaryClassHead(name="click"), est.BinaryClassHead(name="order")],
        head_weights=[1.0, params["order_weight"]],
    )
    shared = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(16, activation="relu")]
    )(features["x"])
    logits = {
        task.name: keras.layers.Dense(task.logits_dimension, name=task.name)(shared)
        for task in head.heads
    }
    return head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=logits,
        labels=labels,
        optimizer=keras.optimizers.Adam(params["learning_rate"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=1000)
    parser.add_argument("--order_weight", type=float, default=2.0)
    args = parser.parse_args()

    estimator = est.Estimator(
        model_fn,
        config=est.RunConfig(
            model_dir=args.model_dir or tempfile.mkdtemp(prefix="multi-task-"), tf_random_seed=1
        ),
        params={"learning_rate": 3e-3, "order_weight": args.order_weight},
    )
    estimator.train(input_fn, max_steps=args.max_steps)

    results = estimator.evaluate(input_fn)
    shown = {key: results[key] for key in sorted(results) if key.startswith(("auc/", "loss"))}
    print(format_results_table(shown, title="Evaluation of both tasks on unseen visits"))

    print("\n  chance of a click  and of an order")
    for prediction, _ in zip(estimator.predict(input_fn), range(5), strict=False):
        click, order = prediction["click", "logistic"][0], prediction["order", "logistic"][0]
        print(f"  {click:17.3f}  {order:16.3f}")


if __name__ == "__main__":
    main()
