"""Training decision forests with ydf, and taking them over into arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.canned.forest.table import Column
from estimand.canned.forest.trees import ForestArrays
from estimand.core.errors import ConfigError, InputError, MissingExtraError

RANDOM_FOREST = "RandomForestLearner"
BOOSTED_TREES = "GradientBoostedTreesLearner"
_LABEL, _WEIGHT = "label", "weight"


@dataclass(frozen=True)
class Examples:
    """All of the data, in memory: trees cannot be grown from batches."""

    columns: Sequence[Column]
    values: Sequence[np.ndarray]
    labels: np.ndarray
    weights: np.ndarray | None


def ydf_module() -> Any:
    """ydf, or what to type to have it."""
    try:
        import ydf
    except ImportError as error:
        raise MissingExtraError("training decision forests", "forests", "ydf") from error
    return ydf


def fit(
    learner_name: str, n_classes: int | None, hyperparameters: Mapping[str, Any], data: Examples
) -> Any:
    """A ydf model; `n_classes` of None means regression."""
    ydf = ydf_module()
    names = [f"column_{i}" for i in range(len(data.columns))]
    kinds = {True: ydf.Semantic.CATEGORICAL, False: ydf.Semantic.NUMERICAL}
    features = [
        ydf.Feature(name, kinds[column.is_text])
        for name, column in zip(names, data.columns, strict=True)
    ]
    table: dict[str, Any] = dict(zip(names, data.values, strict=True))
    table[_LABEL] = data.labels
    if data.weights is not None:
        table[_WEIGHT] = data.weights
    task = ydf.Task.REGRESSION if n_classes is None else ydf.Task.CLASSIFICATION
    # Words that come once are words, too; ydf leaves out those that come less than 5 times.
    settings = {"min_vocab_frequency": 1, **hyperparameters}
    try:
        learner = getattr(ydf, learner_name)(
            label=_LABEL,
            task=task,
            weights=None if data.weights is None else _WEIGHT,
            features=features,
            **settings,
        )
    except TypeError as error:
        raise ConfigError(
            f"hyperparameters are those of ydf.{learner_name}; given: {dict(hyperparameters)}. "
            f"{error}"
        ) from error
    try:
        return learner.train(table, verbose=0)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"ydf cannot train on this data: {error}") from error


def taken_over(
    model: Any, columns: Sequence[Column], n_classes: int | None, *, each_tree_votes: bool = True
) -> ForestArrays:
    """The trees of a ydf model as arrays.

    Their outputs are probabilities for the classes of a random forest, logits for those of
    boosted trees, else numbers. `each_tree_votes`, or else gives probabilities itself.
    """
    forest = ForestArrays(outputs=n_classes or 1)
    positions = {f"column_{i}": i for i in range(len(columns))}
    spec = model.data_spec()
    place_of = {
        i: positions[column.name]
        for i, column in enumerate(spec.columns)
        if column.name in positions
    }
    forest.set_words(_words(spec, positions, columns))
    classes = [int(name) for name in model.label_classes()] if n_classes else []
    trees = list(model.iter_trees())
    if hasattr(model, "initial_predictions"):
        _boosted(forest, trees, classes, model, place_of)
    else:
        _random_forest(forest, trees, classes, each_tree_votes, place_of)
    return forest


def _words(spec: Any, positions: Mapping[str, int], columns: Sequence[Column]) -> list[list[str]]:
    words: list[list[str]] = [[] for _ in columns]
    for column in spec.columns:
        if column.name in positions and columns[positions[column.name]].is_text:
            items = sorted((item.index, word) for word, item in column.categorical.items.items())
            words[positions[column.name]] = [word for index, word in items if index > 0]
    return words


def _random_forest(
    forest: ForestArrays,
    trees: list[Any],
    classes: list[int],
    each_tree_votes: bool,
    place_of: dict[int, int],
) -> None:
    def value_of(value: Any) -> np.ndarray:
        if not classes:
            return np.array([value.value]) / len(trees)
        shares = np.asarray(value.probability)
        if each_tree_votes:
            shares = np.eye(len(shares))[shares.argmax()]
        outputs = np.zeros(forest.outputs)
        outputs[classes] = shares / len(trees)
        return outputs

    forest.bias = np.zeros(forest.outputs)
    for tree in trees:
        forest.add_tree(tree.root, value_of, place_of)


def _boosted(
    forest: ForestArrays, trees: list[Any], classes: list[int], model: Any, place_of: dict[int, int]
) -> None:
    first = np.asarray(model.initial_predictions(), np.float64)
    forest.bias = np.zeros(forest.outputs)
    per_round = model.num_trees_per_iteration()
    if len(classes) > 2 or per_round > 1:
        outputs = [np.eye(forest.outputs)[number] for number in classes]
        # A class that was never seen must not win.
        forest.bias[[i for i in range(forest.outputs) if i not in classes]] = -100.0
    elif classes:
        # One logit: of the second class, against the first.
        outputs = [np.eye(forest.outputs)[classes[1]]]
    else:
        outputs = [np.ones(1)]
    for output, start in zip(outputs, first, strict=True):
        forest.bias += output * start
    for i, tree in enumerate(trees):
        direction = outputs[i % per_round]
        forest.add_tree(tree.root, lambda value, d=direction: d * value.value, place_of)
