"""`tf.contrib.boosted_trees`: its estimators, with their configuration of protocol buffers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from estimand.compat.v1.contrib_modules.trees import BoostedTreesClassifier, BoostedTreesRegressor


class _Message(SimpleNamespace):
    """Takes any field; one that was not set is a message of its own."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Message()
        setattr(self, name, made)
        return made

    def __call__(self, **fields: Any) -> _Message:
        return _Message(**fields)


learner_pb2 = _Message()
for _place, _name in enumerate(("AUTO", "WHOLE_TREE", "LAYER_BY_LAYER")):
    setattr(learner_pb2.LearnerConfig, f"{_name}_GROWING", _place)


def _grown(learner_config: Any) -> dict[str, Any]:
    """What the configuration says of the trees, as far as it was set."""
    depth = learner_config.constraints.max_tree_depth
    rate = learner_config.learning_rate_tuner.fixed.learning_rate
    l1, l2 = learner_config.regularization.l1, learner_config.regularization.l2
    given = {"max_depth": depth, "learning_rate": rate}
    given |= {"l1_regularization": l1, "l2_regularization": l2}
    return {name: value for name, value in given.items() if isinstance(value, int | float)}


def GradientBoostedDecisionTreeClassifier(
    learner_config: Any,
    examples_per_layer: Any,
    n_classes: int = 2,
    num_trees: int | None = None,
    feature_columns: Any = None,
    weight_column_name: Any = None,
    model_dir: Any = None,
    config: Any = None,
    label_keys: Any = None,
    **others: Any,
) -> BoostedTreesClassifier:
    """Boosted trees for classes."""
    del examples_per_layer, others
    return BoostedTreesClassifier(
        feature_columns,
        model_dir=model_dir,
        n_classes=n_classes,
        weight_column=weight_column_name,
        label_vocabulary=label_keys,
        n_trees=num_trees or 100,
        config=config,
        **_grown(learner_config),
    )


def GradientBoostedDecisionTreeRegressor(
    learner_config: Any,
    examples_per_layer: Any,
    label_dimension: int = 1,
    num_trees: int | None = None,
    feature_columns: Any = None,
    weight_column_name: Any = None,
    model_dir: Any = None,
    config: Any = None,
    **others: Any,
) -> BoostedTreesRegressor:
    """Boosted trees for numbers."""
    del examples_per_layer, others
    return BoostedTreesRegressor(
        feature_columns,
        model_dir=model_dir,
        label_dimension=label_dimension,
        weight_column=weight_column_name,
        n_trees=num_trees or 100,
        config=config,
        **_grown(learner_config),
    )
