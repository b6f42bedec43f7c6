"""Canned models that were trained with the original, and are continued here.

The same definitions are run by both: `estimator` is `tf.estimator` or `estimand`, `optimizers`
has the optimizer classes of Keras 2 or ours, `v1` is `tf.compat.v1.estimator` or its stand-in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

ROWS, BATCH, STEPS, MORE_STEPS = 100, 20, 40, 30
fc = tf.feature_column


def table() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Features and several labels for them; RandomState gives the same on every version."""
    random = np.random.RandomState(7)
    x = random.uniform(-1, 1, (ROWS, 2)).astype("float32")
    words = random.choice(["ab", "cd", "ef", "gh", "ij"], ROWS)
    ids = random.randint(0, 6, (ROWS, 2)).astype("int64")
    score = x[:, 0] - 0.5 * x[:, 1] + (words == "cd") + 0.3 * ids.sum(1) - 1.5
    score += random.normal(0, 0.3, ROWS)
    three = np.digitize(score, [-0.4, 0.6]).astype("int64")
    features = {
        "x": x,
        "word": words.astype("S2"),
        "ids": ids,
        "weight": random.uniform(0.2, 2.0, ROWS).astype("float32"),
        "other_ids": random.randint(0, 6, ROWS).astype("int64"),
        "row": np.array([f"row {i}" for i in range(ROWS)], "S8"),
    }
    labels: dict[str, Any] = {
        "binary": (score > 0).astype("int64"),
        "three": three,
        "words": np.array([b"low", b"mid", b"high"])[three],
        "yes_no": np.where(score > 0, b"yes", b"no"),
        "number": score.astype("float32"),
        "two_numbers": np.stack([score, x[:, 1]], 1).astype("float32"),
    }
    labels["two_heads"] = {"is": labels["binary"], "much": labels["two_numbers"]}
    return features, labels


def columns() -> SimpleNamespace:
    x = fc.numeric_column("x", shape=(2,))
    word = fc.categorical_column_with_hash_bucket("word", 8)
    ids = fc.categorical_column_with_identity("ids", 6)
    deep = [x, fc.embedding_column(word, 3), fc.embedding_column(ids, 2, combiner="sqrtn")]
    return SimpleNamespace(x=x, word=word, ids=ids, deep=deep, wide=[x, word, ids])


def shared(make: Callable[..., Any]) -> list[Any]:
    """Two columns over one table. TensorFlow makes such columns only outside of eager mode."""
    with tf.Graph().as_default():
        ids = fc.categorical_column_with_identity("ids", 6)
        other_ids = fc.categorical_column_with_identity("other_ids", 6)
        return list(make([ids, other_ids], 3))


def plain(row: dict[Any, Any]) -> dict[str, Any]:
    """A row of predictions with keys that are text: those of several heads are tuples."""
    return {k if isinstance(k, str) else "/".join(k): v for k, v in row.items()}


@dataclass(frozen=True)
class Case:
    """`make` takes a Namespace of (estimator, v1, optimizers), columns, and common arguments."""

    make: Callable[[Any, Any, dict[str, Any]], Any]
    label: str = "binary"
    features: tuple[str, ...] = ("x", "word", "ids", "weight")
    # The original never trains the tables of `shared_embeddings`: training goes another way here.
    trained_alike: bool = True

    def input_fn(self, repeat: bool = False) -> tf.data.Dataset:
        features, labels = table()
        chosen = {name: features[name] for name in self.features}
        dataset = tf.data.Dataset.from_tensor_slices((chosen, labels[self.label]))
        return (dataset.repeat() if repeat else dataset).batch(BATCH)


def _schedule() -> Any:
    return tf.keras.optimizers.schedules.ExponentialDecay(0.05, 10, 0.7)


def _partitioner() -> Any:
    """Up to three parts of each variable, of different sizes where its rows do not divide."""
    return tf.compat.v1.min_max_variable_partitioner(max_partitions=3, min_slice_size=8)


CASES = {
    "dnn_estimator_two_heads": Case(
        lambda use, c, more: use.estimator.DNNEstimator(
            use.estimator.MultiHead(
                [
                    use.estimator.BinaryClassHead(name="is", weight_column="weight"),
                    use.estimator.RegressionHead(2, name="much"),
                ],
                head_weights=[0.3, 1.7],
            ),
            [6],
            c.deep,
            **more,
        ),
        "two_heads",
    ),
    "linear_regressor_weights": Case(
        lambda use, c, more: use.estimator.LinearRegressor(
            c.wide,
            weight_column="weight",
            optimizer=lambda: use.optimizers.Ftrl(
                0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02, beta=0.1
            ),
            **more,
        ),
        "number",
    ),
    # Given as 0 and not as 0.0, a hyperparameter is an integer in the original's checkpoints.
    "linear_regressor_whole_numbers": Case(
        lambda use, c, more: use.estimator.LinearRegressor(
            c.wide, optimizer=lambda: use.optimizers.RMSprop(0.01, momentum=0), **more
        ),
        "number",
    ),
    "linear_classifier_mean_combiner": Case(
        lambda use, c, more: use.estimator.LinearClassifier(
            c.wide, n_classes=3, sparse_combiner="mean", loss_reduction="sum", **more
        ),
        "three",
    ),
    "linear_classifier_default_optimizer": Case(
        lambda use, c, more: use.estimator.LinearClassifier(
            [*c.wide, *c.deep[1:]], optimizer=None, label_vocabulary=["no", "yes"], **more
        ),
        "yes_no",
    ),
    "dnn_regressor_batch_norm_adam": Case(
        lambda use, c, more: use.estimator.DNNRegressor(
            [6, 4], c.deep, batch_norm=True, optimizer="Adam", label_dimension=2, **more
        ),
        "two_numbers",
    ),
    "dnn_classifier_vocabulary_rmsprop": Case(
        lambda use, c, more: use.estimator.DNNClassifier(
            [6],
            c.deep,
            n_classes=3,
            label_vocabulary=["low", "mid", "high"],
            weight_column=fc.numeric_column("weight", normalizer_fn=lambda w: w + 1.0),
            optimizer="RMSProp",
            activation_fn=tf.nn.tanh,
            **more,
        ),
        "words",
    ),
    "dnn_classifier_rmsprop_momentum": Case(
        lambda use, c, more: use.estimator.DNNClassifier(
            [6],
            c.deep,
            optimizer=lambda: use.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
            **more,
        ),
    ),
    "dnn_classifier_rmsprop_centered": Case(
        lambda use, c, more: use.estimator.DNNClassifier(
            [6], c.deep, optimizer=lambda: use.optimizers.RMSprop(0.01, centered=True), **more
        ),
    ),
    "dnn_classifier_sgd": Case(
        lambda use, c, more: use.estimator.DNNClassifier([6], c.deep, optimizer="SGD", **more),
    ),
    "dnn_regressor_nesterov": Case(
        lambda use, c, more: use.estimator.DNNRegressor(
            [6],
            c.deep,
            optimizer=lambda: use.optimizers.SGD(0.02, momentum=0.8, nesterov=True),
            **more,
        ),
        "number",
    ),
    "dnn_classifier_schedule_amsgrad": Case(
        lambda use, c, more: use.estimator.DNNClassifier(
            [6],
            c.deep,
            optimizer=lambda: use.optimizers.Adam(_schedule(), amsgrad=True, clipnorm=0.1),
            **more,
        ),
    ),
    "wide_deep_regressor_adam_twice": Case(
        lambda use, c, more: use.estimator.DNNLinearCombinedRegressor(
            linear_feature_columns=c.wide,
            linear_optimizer="Adam",
            dnn_feature_columns=c.deep,
            dnn_optimizer="Adam",
            dnn_hidden_units=[6],
            label_dimension=2,
            batch_norm=True,
            **more,
        ),
        "two_numbers",
    ),
    "wide_deep_classifier_linear_only": Case(
        lambda use, c, more: use.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=c.wide, n_classes=3, weight_column="weight", **more
        ),
        "three",
    ),
    "baseline_classifier": Case(
        lambda use, c, more: use.estimator.BaselineClassifier(n_classes=3, **more), "three", ("x",)
    ),
    "baseline_regressor": Case(
        lambda use, c, more: use.estimator.BaselineRegressor(optimizer="SGD", **more),
        "number",
        ("x",),
    ),
    "v1_dnn_classifier": Case(lambda use, c, more: use.v1.DNNClassifier([6], c.deep, **more)),
    "v1_dnn_regressor_batch_norm_adam": Case(
        lambda use, c, more: use.v1.DNNRegressor(
            [6, 4],
            c.deep,
            batch_norm=True,
            optimizer=lambda: tf.compat.v1.train.AdamOptimizer(0.01),
            **more,
        ),
        "number",
    ),
    "v1_dnn_classifier_rmsprop": Case(
        lambda use, c, more: use.v1.DNNClassifier(
            [6],
            c.deep,
            n_classes=3,
            loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
            optimizer="RMSProp",
            **more,
        ),
        "three",
    ),
    "v1_linear_classifier": Case(
        lambda use, c, more: use.v1.LinearClassifier(
            c.wide, weight_column="weight", label_vocabulary=["no", "yes"], **more
        ),
        "yes_no",
    ),
    "v1_linear_regressor_momentum": Case(
        lambda use, c, more: use.v1.LinearRegressor(
            c.wide, optimizer=lambda: tf.compat.v1.train.MomentumOptimizer(0.001, 0.9), **more
        ),
        "number",
    ),
    "v1_wide_deep_classifier": Case(
        lambda use, c, more: use.v1.DNNLinearCombinedClassifier(
            linear_feature_columns=c.wide,
            dnn_feature_columns=c.deep,
            dnn_hidden_units=[6],
            batch_norm=True,
            **more,
        ),
    ),
    "v1_wide_deep_regressor_adam_twice": Case(
        lambda use, c, more: use.v1.DNNLinearCombinedRegressor(
            linear_feature_columns=c.wide,
            linear_optimizer="Adam",
            dnn_feature_columns=c.deep,
            dnn_optimizer="Adam",
            dnn_hidden_units=[6],
            **more,
        ),
        "number",
    ),
    "v1_dnn_classifier_partitioned": Case(
        lambda use, c, more: use.v1.DNNClassifier(
            [6], c.deep, input_layer_partitioner=_partitioner(), **more
        ),
    ),
    "v1_linear_regressor_partitioned_momentum": Case(
        lambda use, c, more: use.v1.LinearRegressor(
            c.wide,
            optimizer=lambda: tf.compat.v1.train.MomentumOptimizer(0.001, 0.9),
            partitioner=_partitioner(),
            **more,
        ),
        "number",
    ),
    "v1_linear_classifier_partitioned": Case(
        lambda use, c, more: use.v1.LinearClassifier(
            c.wide, weight_column="weight", partitioner=_partitioner(), **more
        ),
    ),
    "v1_wide_deep_classifier_partitioned": Case(
        lambda use, c, more: use.v1.DNNLinearCombinedClassifier(
            linear_feature_columns=c.wide,
            dnn_feature_columns=c.deep,
            dnn_hidden_units=[6],
            dnn_optimizer="Adam",
            input_layer_partitioner=_partitioner(),
            **more,
        ),
    ),
    "v1_baseline_classifier": Case(
        lambda use, c, more: use.v1.BaselineClassifier(n_classes=3, **more), "three"
    ),
    "dnn_classifier_shared_embeddings": Case(
        lambda use, c, more: use.estimator.DNNClassifier(
            [4], [c.x, *shared(fc.shared_embeddings)], **more
        ),
        features=("x", "ids", "other_ids"),
        trained_alike=False,
    ),
    "wide_deep_classifier_shared_embeddings": Case(
        lambda use, c, more: use.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=[c.ids],
            dnn_feature_columns=shared(fc.shared_embeddings),
            dnn_hidden_units=[4],
            **more,
        ),
        features=("x", "ids", "other_ids"),
        trained_alike=False,
    ),
    "v1_dnn_classifier_shared_embedding_columns": Case(
        lambda use, c, more: use.v1.DNNClassifier(
            [4],
            [c.x, *shared(tf.compat.v1.feature_column.shared_embedding_columns)],
            **more,
        ),
        features=("x", "ids", "other_ids"),
    ),
}
