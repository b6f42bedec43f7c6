"""Parsing batches of records, and finding those of a batch that parse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError

_FIXED = (tf.io.FixedLenFeature,)
_KNOWN = (
    tf.io.FixedLenFeature,
    tf.io.VarLenFeature,
    tf.io.SparseFeature,
    tf.io.RaggedFeature,
    tf.io.FixedLenSequenceFeature,
)


class Parser:
    """A batch of serialized records to features, or (features, labels)."""

    def __init__(
        self,
        features: dict[str, Any],
        sequences: dict[str, Any],
        label_key: str | Sequence[str] | None,
        where: str,
    ) -> None:
        self.features, self.sequences = features, sequences
        self.label_key = label_key
        both = {**features, **sequences}
        for name, spec in both.items():
            if not isinstance(spec, _KNOWN):
                raise InputError(
                    f"{where}: features[{name!r}] must be one of tf.io.FixedLenFeature, "
                    "VarLenFeature, SparseFeature, RaggedFeature or FixedLenSequenceFeature; "
                    f"given: {spec!r}."
                )
        labels = [label_key] if isinstance(label_key, str) else list(label_key or ())
        unknown = [name for name in labels if name not in both]
        if unknown:
            raise InputError(
                f"{where}: label_key {unknown[0]!r} is not among the features: {sorted(both)}."
            )
        if len(labels) == len(both):
            raise InputError(f"{where}: no feature is left beside the label {label_key!r}.")
        self.variable_names = sorted(n for n, spec in both.items() if not isinstance(spec, _FIXED))

    @property
    def dense(self) -> bool:
        """Whether each feature is one tensor with a row for each record."""
        return not self.variable_names and not self.sequences

    @tf.autograph.experimental.do_not_convert
    def __call__(self, serialized: tf.Tensor) -> Any:
        values = self.parse(serialized)
        if self.label_key is None:
            return values
        if isinstance(self.label_key, str):
            return values, values.pop(self.label_key)
        return values, {name: values.pop(name) for name in self.label_key}

    def parse(self, serialized: tf.Tensor) -> dict[str, Any]:
        if not self.sequences:
            return tf.io.parse_example(serialized, self.features)
        context, sequences, _ = tf.io.parse_sequence_example(
            serialized, self.features or None, self.sequences
        )
        return {**context, **sequences}


def keep_what_parses(
    parser: Parser, count_lost: Callable[[tf.Tensor], Any]
) -> Callable[[tf.Tensor], Any]:
    """Like the parser, leaving out records that do not parse; `count_lost` is told how many.

    The batch is tried as a whole; only one that fails is gone through record by record.
    """

    @tf.autograph.experimental.do_not_convert
    def parse(serialized: tf.Tensor) -> Any:
        whole = tf.data.Dataset.from_tensors(serialized).map(_with_mark(parser, True))
        nothing = tf.data.Dataset.from_tensors(serialized[:0]).map(_with_mark(parser, False))
        first = whole.ignore_errors().concatenate(nothing).take(1)
        parsed, in_order = first.get_single_element()

        def one_by_one() -> Any:
            good = _parsable(parser, serialized)
            count_lost(tf.size(serialized, tf.int64) - tf.size(good, tf.int64))
            return parser(good)

        return tf.cond(in_order, lambda: parsed, one_by_one)

    return parse


def _with_mark(parser: Parser, mark: bool) -> Callable[[tf.Tensor], Any]:
    def parse(serialized: tf.Tensor) -> Any:
        return parser(serialized), tf.constant(mark)

    return tf.autograph.experimental.do_not_convert(parse)


def _parsable(parser: Parser, serialized: tf.Tensor) -> tf.Tensor:
    """Those of the records that parse."""

    # What was parsed goes along until errors are dropped; a mere control dependency on it would
    # be optimised away.
    def check(record: tf.Tensor) -> Any:
        return record, parser.parse(record[tf.newaxis])

    rows = tf.data.Dataset.from_tensor_slices(serialized)
    tried = rows.map(tf.autograph.experimental.do_not_convert(check)).ignore_errors()
    good = tried.map(tf.autograph.experimental.do_not_convert(lambda record, _: record))
    some = good.batch(tf.size(serialized, tf.int64))
    none = tf.data.Dataset.from_tensors(serialized[:0])
    return some.concatenate(none).take(1).get_single_element()
