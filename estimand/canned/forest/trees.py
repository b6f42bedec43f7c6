"""Decision trees as arrays, and their evaluation in TensorFlow.

A forest is trained by ydf, but asked here: its nodes lie in arrays, all trees one after the other,
and a batch of examples walks down all trees at once. So a trained forest is a checkpoint like any
other, and its export a SavedModel that needs nothing but TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.canned.forest.table import Column
from estimand.core.errors import EstimandError

_LEAF, _NUMBER, _WORD, _MISSING = range(4)
_v1 = tf.compat.v1

# Name -> (type, shape of a row).
_ARRAYS: dict[str, Any] = {
    "kind": tf.int32,
    "column": tf.int32,
    "threshold": tf.float32,
    "mask_start": tf.int32,
    "if_missing": tf.bool,
    "positive": tf.int32,
    "negative": tf.int32,
    "roots": tf.int32,
    "masks": tf.bool,
    "words": tf.string,
    "word_starts": tf.int32,
}


@dataclass
class ForestArrays:
    """A forest while it is being taken over from ydf."""

    outputs: int
    rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _ARRAYS})
    values: list[np.ndarray] = field(default_factory=list)
    bias: np.ndarray | None = None
    depth: int = 0

    def add_tree(self, root: Any, value_of: Any, place_of: dict[int, int]) -> None:
        """`value_of` gives the outputs of a leaf, `place_of` our column for one of ydf's."""
        self.rows["roots"].append(self._add(root, value_of, place_of, 0))

    def _add(self, node: Any, value_of: Any, place_of: dict[int, int], depth: int) -> int:
        here = len(self.values)
        self.depth = max(self.depth, depth)
        leaf = node.is_leaf
        self.values.append(value_of(node.value) if leaf else np.zeros(self.outputs))
        asked = _leaf() if leaf else self._question(node.condition, place_of)
        for name, value in {**asked, "positive": here, "negative": here}.items():
            self.rows[name].append(value)
        if not leaf:
            for name, child in (("positive", node.pos_child), ("negative", node.neg_child)):
                self.rows[name][here] = self._add(child, value_of, place_of, depth + 1)
        return here

    def _question(self, condition: Any, place_of: dict[int, int]) -> dict[str, Any]:
        asked = {**_leaf(), "if_missing": bool(getattr(condition, "missing", False))}
        name = type(condition).__name__
        if name == "NumericalHigherThanCondition":
            asked.update(kind=_NUMBER, threshold=condition.threshold)
        elif name == "CategoricalIsInCondition":
            asked.update(kind=_WORD, mask_start=len(self.rows["masks"]))
            known = max(condition.mask, default=0)
            self.rows["masks"] += [i in set(condition.mask) for i in range(known + 1)]
            # Every word has a place, also those that no mask reaches.
            words = self.words_in(place_of[condition.attribute])
            self.rows["masks"] += [False] * max(0, words - known)
        elif name == "IsMissingInCondition":
            asked.update(kind=_MISSING)
        else:
            raise EstimandError(
                f"The forest asks {name}, which cannot be computed in TensorFlow here. Train it "
                "without the hyperparameter that allows it (split_axis, for instance)."
            )
        asked["column"] = place_of[condition.attribute]
        return asked

    def set_words(self, words: Sequence[Sequence[str]]) -> None:
        """The words of each column, by rising id from 1; none for a column of numbers."""
        self.rows["word_starts"] = np.cumsum([0, *(len(of_column) for of_column in words)]).tolist()
        self.rows["words"] = [word for of_column in words for word in of_column]

    def words_in(self, column: int) -> int:
        starts = self.rows["word_starts"]
        return starts[column + 1] - starts[column]

    def tensors(self) -> dict[str, tf.Tensor]:
        """What goes into a checkpoint, by name."""
        result = {name: tf.constant(rows, _ARRAYS[name]) for name, rows in self.rows.items()}
        result["values"] = tf.constant(np.array(self.values), tf.float32)
        result["bias"] = tf.constant(self.bias, tf.float32)
        result["depth"] = tf.constant(self.depth, tf.int32)
        return {f"forest/{name}": tensor for name, tensor in result.items()}


def _leaf() -> dict[str, Any]:
    return {
        "kind": _LEAF,
        "column": 0,
        "threshold": math.inf,
        "mask_start": 0,
        "if_missing": False,
    }


class ForestVariables:
    """A trained forest in the variables of a model."""

    def __init__(self, outputs: int) -> None:
        made = {name: _growing(name, [], dtype) for name, dtype in _ARRAYS.items()}
        made["values"] = _growing("values", [outputs], tf.float32)
        for name, start in (("bias", tf.zeros([outputs])), ("depth", tf.constant(0))):
            made[name] = _v1.Variable(start, name=f"forest/{name}", trainable=False)
        self._at = {name: variable.read_value() for name, variable in made.items()}

    def outputs(self, columns: Sequence[Column], values: Sequence[tf.Tensor]) -> tf.Tensor:
        """[batch, outputs]: the bias and, of every tree, the values of the leaf reached."""
        at = self._at
        encoded = [
            self._ids(i, value) if column.is_text else value
            for i, (column, value) in enumerate(zip(columns, values, strict=True))
        ]
        table = tf.stack(encoded, axis=1)
        rows, trees = tf.shape(table)[0], tf.shape(at["roots"])[0]
        nodes = tf.broadcast_to(at["roots"][None, :], [rows, trees])
        _, nodes = tf.while_loop(
            lambda level, _: level < at["depth"],
            lambda level, nodes: (level + 1, self._down(table, nodes)),
            [tf.constant(0), nodes],
        )
        return at["bias"] + tf.reduce_sum(tf.gather(at["values"], nodes), axis=1)

    def _down(self, table: tf.Tensor, nodes: tf.Tensor) -> tf.Tensor:
        at = self._at

        def of(name: str) -> tf.Tensor:
            return tf.gather(at[name], nodes)

        values = tf.gather(table, of("column"), batch_dims=1)
        missing = tf.math.is_nan(values)
        kind = of("kind")
        # Where another kind of question is asked, the place means nothing, but has to exist.
        ids = tf.where(missing | (kind != _WORD), 0.0, values)
        masks = tf.concat([at["masks"], [False]], axis=0)
        contained = tf.gather(masks, of("mask_start") + tf.cast(ids, tf.int32))
        yes = tf.where(kind == _WORD, contained, values >= of("threshold"))
        yes = tf.where(missing, of("if_missing"), yes)
        yes = tf.where(kind == _MISSING, missing, yes)
        return tf.where(yes, of("positive"), of("negative"))

    def _ids(self, column: int, words: tf.Tensor) -> tf.Tensor:
        """1 for the first word, and so on; 0 for one never seen, NaN for none."""
        starts = self._at["word_starts"]
        known = self._at["words"][starts[column] : starts[column + 1]]
        same = tf.equal(words[:, None], tf.concat([known, [""]], axis=0)[None, :])
        ids = tf.argmax(same, axis=1, output_type=tf.int32) + 1
        ids = tf.where(tf.reduce_any(same, axis=1), ids, 0)
        return tf.where(tf.equal(words, ""), math.nan, tf.cast(ids, tf.float32))


def _growing(name: str, row_shape: list[int], dtype: tf.DType) -> tf.Variable:
    start = tf.fill([0], "") if dtype == tf.string else tf.zeros([0, *row_shape], dtype)
    return _v1.Variable(
        start,
        name=f"forest/{name}",
        trainable=False,
        validate_shape=False,
        shape=tf.TensorShape([None, *row_shape]),
    )
