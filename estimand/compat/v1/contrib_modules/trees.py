"""Forests of TensorFlow 1 on those of Estimand: `BoostedTrees*`, contrib's trees and forests.

The kernels that grew them are gone. The names and the arguments that say what to grow are kept;
the trees are grown by ydf (`pip install 'estimand[forests]'`), all data in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from estimand.canned import forest
from estimand.compat.v1.contrib_modules.explained_trees import ExplainedTrees
from estimand.core.errors import ConfigError
from estimand.core.hparams import HParams

_log = logging.getLogger("estimand")


def _features(feature_columns: Any) -> list[str] | None:
    """The features that columns read; all if there are none."""
    if not feature_columns:
        return None
    names: dict[str, None] = {}
    waiting = list(feature_columns)
    while waiting:
        column = waiting.pop(0)
        parents = [p for p in getattr(column, "parents", ()) if not isinstance(p, str)]
        waiting += parents
        names.update(dict.fromkeys(p for p in getattr(column, "parents", ()) if isinstance(p, str)))
        if not hasattr(column, "parents"):
            names[getattr(column, "key", str(column))] = None
    return list(names)


# What ydf has no equivalent of, and what upstream set where a program said nothing. It always
# begins with the prior of the labels, as `center_bias` asks.
_WITHOUT_EQUIVALENT = {
    "tree_complexity": 0.0,
    "min_node_weight": 0.0,
    "pruning_mode": "none",
    "quantile_sketch_epsilon": 0.01,
}
_told: set[str] = set()


def tell_what_is_ignored(name: str, ignored: Mapping[str, Any], instead: str) -> None:
    """One warning for all arguments that ydf has no use for, and only the first time."""
    if ignored.keys() - _told:
        _told.update(ignored)
        _log.warning(
            "%s are grown by ydf, which has no equivalent of %s: ignored. ydf's own settings are "
            "hyperparameters of %s.",
            name,
            ", ".join(f"{argument}={ignored[argument]!r}" for argument in sorted(ignored)),
            instead,
        )


def _boosting(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a class of upstream as hyperparameters of ydf."""
    _log.info("Boosted trees are grown by ydf: the data is read once, and held in memory.")
    ignored = {
        name: given[name]
        for name, default in _WITHOUT_EQUIVALENT.items()
        if given[name] not in (None, default)
    }
    tell_what_is_ignored(
        "BoostedTrees", ignored, "est.GradientBoostedTreesClassifier and Regressor"
    )
    return {
        "num_trees": given["n_trees"],
        "max_depth": given["max_depth"] + 1,  # ydf counts nodes on the way, not edges
        "shrinkage": given["learning_rate"],
        "validation_ratio": 0.0,
        "early_stopping": "NONE",
        "l1_regularization": given["l1_regularization"],
        "l2_regularization": given["l2_regularization"],
    }


class BoostedTreesClassifier(ExplainedTrees, forest.GradientBoostedTreesClassifier):
    """`tf.estimator.BoostedTreesClassifier`."""

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: int | None = None,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: Any = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        grown = _boosting(locals())
        super().__init__(
            model_dir,
            n_classes,
            weight_column,
            label_vocabulary,
            _features(feature_columns),
            grown,
            config,
        )


class BoostedTreesRegressor(ExplainedTrees, forest.GradientBoostedTreesRegressor):
    """`tf.estimator.BoostedTreesRegressor`."""

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: int | None = None,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: Any = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        grown = _boosting(locals())
        if label_dimension != 1:
            raise ConfigError(
                "For now only 1 dimension regression is supported. "
                f"label_dimension given as {label_dimension}."
            )
        super().__init__(model_dir, weight_column, _features(feature_columns), grown, config)


def boosted_trees_classifier_train_in_memory(
    train_input_fn: Callable[..., Any], feature_columns: Any, *args: Any, **kwargs: Any
) -> BoostedTreesClassifier:
    """`BoostedTreesClassifier(...)`, trained."""
    hooks = kwargs.pop("train_hooks", None)
    made = BoostedTreesClassifier(feature_columns, None, *args, **kwargs)
    made.train(train_input_fn, hooks=hooks)
    return made


def boosted_trees_regressor_train_in_memory(
    train_input_fn: Callable[..., Any], feature_columns: Any, *args: Any, **kwargs: Any
) -> BoostedTreesRegressor:
    """`BoostedTreesRegressor(...)`, trained."""
    hooks = kwargs.pop("train_hooks", None)
    made = BoostedTreesRegressor(feature_columns, None, *args, **kwargs)
    made.train(train_input_fn, hooks=hooks)
    return made


class ForestHParams(HParams):
    """`tensor_forest.ForestHParams`: what of it says which forest to grow."""

    def __init__(self, num_trees: int = 100, max_nodes: int = 10000, **others: Any) -> None:
        super().__init__(num_trees=num_trees, max_nodes=max_nodes, **others)

    def fill(self) -> ForestHParams:
        """Complete the parameters; the defaults are there already."""
        return self


def TensorForestEstimator(
    params: Any,
    device_assigner: Any = None,
    model_dir: Any = None,
    feature_engineering_fn: Any = None,
    weights_name: Any = None,
    keys_name: Any = None,
    config: Any = None,
    **others: Any,
) -> Any:
    """`tensor_forest.client.random_forest.TensorForestEstimator`: a random forest."""
    given = {
        "device_assigner": device_assigner,
        "feature_engineering_fn": feature_engineering_fn,
        "keys_name": keys_name,
        **others,
    }
    ignored = {name: value for name, value in given.items() if value is not None}
    tell_what_is_ignored("Forests", ignored, "est.RandomForestClassifier and Regressor")
    values = params if isinstance(params, Mapping) else params.values()
    grown = {"num_trees": values.get("num_trees", 100)}
    if values.get("regression"):
        return forest.RandomForestRegressor(model_dir, weights_name, None, grown, config)
    classes = values.get("num_classes", 2)
    return forest.RandomForestClassifier(
        model_dir, classes, weights_name, None, None, grown, config
    )
