"""Classes by name: string labels to class ids and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.heads.checks import after, require

_WORDS_TO_SHOW = 10


class LabelVocabulary:
    """An ordered list of class names.

    >>> vocabulary = LabelVocabulary(["cat", "dog"])
    >>> vocabulary.ids(tf.constant([["dog"], ["cat"]])).numpy().tolist()
    [[1], [0]]
    >>> vocabulary.ids(tf.constant([["bird"]]))
    Traceback (most recent call last):
        ...
    estimand.core.errors.HeadError: label_vocabulary (cat, dog) does not contain the label 'bird'
    in row 0
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._eager_table: Any = None
        repeated = sorted({str(w) for w in self.words if self.words.count(w) > 1})
        if repeated:
            raise HeadError(f"label_vocabulary contains {', '.join(map(repr, repeated))} twice.")

    def __len__(self) -> int:
        return len(self.words)

    def __reduce__(self) -> Any:
        return type(self), (self.words,)  # a table is neither copied nor pickled

    def ids(self, labels: tf.Tensor, *, one_per_row: bool = True) -> tf.Tensor:
        """int64 class ids; a label that is no class is an error that names it.

        `one_per_row`: the place of a label is its row, if the shape allows for that.
        """
        if labels.dtype != tf.string:
            raise HeadError(
                "Labels dtype should be string if there is a vocabulary. "
                f"Instead got {labels.dtype}. Drop label_vocabulary, or give labels such as "
                f"{self.words[0]!r}."
            )
        ids = self._table().lookup(labels)
        # Classes are counted from 0, so an unknown label is the smallest id there is.
        flat = tf.concat([tf.reshape(ids, [-1]), [0]], axis=0)  # never empty
        first_unknown = tf.argmin(flat, output_type=tf.int32)
        culprit = tf.concat([tf.reshape(labels, [-1]), [""]], axis=0)[first_unknown]
        known = tf.get_static_value(culprit)  # at run time, the engine puts the quotes
        checks = require(
            tf.greater_equal(flat[first_unknown], 0),
            f"label_vocabulary ({self._shown()}) does not contain the label",
            culprit if known is None else repr(known.decode(errors="replace")),
            *(("in row", first_unknown) if one_per_row and _one_per_row(labels) else ()),
        )
        return after(checks, ids)

    def names(self, ids: tf.Tensor) -> tf.Tensor:
        """The class names of valid ids."""
        return tf.gather(tf.constant(self.words), ids, name="str_classes")

    def _table(self) -> Any:
        if not tf.executing_eagerly():
            return self._new_table()  # it belongs to the graph that is being built
        if self._eager_table is None:
            self._eager_table = self._new_table()
        return self._eager_table

    def _new_table(self) -> Any:
        keys = tf.constant(self.words)
        values = tf.range(len(self.words), dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        return tf.lookup.StaticHashTable(initializer, default_value=-1, name="class_id_lookup")

    def _shown(self) -> str:
        shown = ", ".join(self.words[:_WORDS_TO_SHOW])
        more = len(self.words) - _WORDS_TO_SHOW
        return f"{shown} and {more} more" if more > 0 else shown


def _one_per_row(labels: tf.Tensor) -> bool:
    return bool(labels.shape.rank) and all(size == 1 for size in labels.shape[1:])


def vocabulary_or_none(words: Any) -> LabelVocabulary | None:
    """The vocabulary a head was given; a complaint if it is not a list of names."""
    if words is None:
        return None
    if not isinstance(words, (list, tuple)):
        raise HeadError(f"label_vocabulary should be a list or a tuple. Given type: {type(words)}")
    return LabelVocabulary([w.decode() if isinstance(w, bytes) else str(w) for w in words])


def class_names(vocabulary: LabelVocabulary | None, n_classes: int) -> list[str]:
    """The name of every class: from the vocabulary, else its number."""
    return list(vocabulary.words) if vocabulary else [str(i) for i in range(n_classes)]
