"""What features the records of some files have, and how to parse them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from estimand.core.errors import InputError
from estimand.inputs.records.files import Paths
from estimand.inputs.records.reading import decode, numbered, values_of

_DTYPES = {"bytes": "string", "float": "float32", "int64": "int64"}


@dataclasses.dataclass
class Feature:
    """One feature, as it was seen.

    Attributes:
      kinds: "bytes", "float" or "int64"; more than one where records disagree.
      records: how many records have it, with at least one value (or step).
      fewest, most: how many values a record has (for a sequence: a step).
      longest: the number of bytes of the longest value; 0 for numbers.
    """

    kinds: set[str] = dataclasses.field(default_factory=set)
    records: int = 0
    fewest: int | None = None
    most: int = 0
    longest: int = 0

    def see(self, message: Any) -> int:
        kind, values = values_of(message)
        if kind is not None:
            self.kinds.add(kind)
        count = len(values)
        self.fewest = count if self.fewest is None else min(self.fewest, count)
        self.most = max(self.most, count)
        if kind == "bytes" and count:
            self.longest = max(self.longest, max(map(len, values)))
        return count

    @property
    def kind(self) -> str | None:
        """Its kind; None where no value was seen, or several kinds."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None


@dataclasses.dataclass(frozen=True)
class Schema:
    """The features of some records.

    Attributes:
      records: how many records were looked at.
      complete: whether these were all.
      features: by name; for SequenceExample records, those of the context.
      sequences: the feature lists of SequenceExample records, by name.
    """

    records: int
    complete: bool
    features: dict[str, Feature]
    sequences: dict[str, Feature]

    def parse_spec(self) -> dict[str, Any]:
        """For `tf.io.parse_example`, or the context of `tf.io.parse_sequence_example`.

        FixedLenFeature where every record has the same number of values, VarLenFeature otherwise.
        """
        import tensorflow as tf

        spec: dict[str, Any] = {}
        for name, feature in self.features.items():
            dtype = self._dtype(name, feature)
            if feature.records == self.records and feature.fewest == feature.most:
                shape = [] if feature.most == 1 else [feature.most]
                spec[name] = tf.io.FixedLenFeature(shape, dtype)
            else:
                spec[name] = tf.io.VarLenFeature(dtype)
        return spec

    def sequence_spec(self) -> dict[str, Any]:
        """For the feature lists of `tf.io.parse_sequence_example`."""
        import tensorflow as tf

        spec: dict[str, Any] = {}
        for name, feature in self.sequences.items():
            dtype = self._dtype(name, feature)
            if feature.fewest == feature.most and feature.most:
                shape = [] if feature.most == 1 else [feature.most]
                missing = feature.records < self.records
                spec[name] = tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=missing)
            else:
                spec[name] = tf.io.VarLenFeature(dtype)
        return spec

    def _dtype(self, name: str, feature: Feature) -> Any:
        import tensorflow as tf

        if len(feature.kinds) > 1:
            raise InputError(
                f"The feature {name!r} is {' in some records and '.join(sorted(feature.kinds))} in "
                "others, so that no spec parses them all. Write the records again with one kind."
            )
        return tf.as_dtype(_DTYPES[feature.kind or "bytes"])


def schema(files: Paths, *, compression: str | None = None, limit: int | None = 10_000) -> Schema:
    """Look at the first `limit` records (None: at all) and note their features.

    Args:
      files: a path, a pattern, or a list of these.
      compression: "GZIP", "ZLIB" or ""; None: as the first bytes say.
      limit: how many records at most.

    >>> import os, tempfile
    >>> from estimand.inputs import records
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> _ = records.write(path, [{"x": 1.5, "tags": ["a", "b"]}, {"x": 2.5, "tags": []}])
    >>> schema(path).parse_spec()["x"]
    FixedLenFeature(shape=[], dtype=tf.float32, default_value=None)
    """
    return look_at(numbered(files, compression, "schema"), limit)


def look_at(records: Iterator[tuple[str, int, bytes]], limit: int | None) -> Schema:
    """`schema` of records that are being read."""
    features: dict[str, Feature] = {}
    sequences: dict[str, Feature] = {}
    count = 0
    for path, number, data in itertools.islice(records, limit):
        context, lists = decode(data, path, number)
        for name, message in context.items():
            feature = features.setdefault(name, Feature())
            feature.records += feature.see(message) > 0
        for name, steps in lists.items():
            feature = sequences.setdefault(name, Feature())
            feature.records += 1
            for step in steps.feature:
                feature.see(step)
        count += 1
    complete = limit is None or count < limit or next(records, None) is None
    return Schema(count, complete, dict(sorted(features.items())), dict(sorted(sequences.items())))


def parse_spec(
    files: Paths, *, compression: str | None = None, limit: int | None = 10_000
) -> dict[str, Any]:
    """The spec that `tf.io.parse_example` needs for these records, from the first `limit`.

    Args:
      files: a path, a pattern, or a list of these.
      compression: "GZIP", "ZLIB" or ""; None: as the first bytes say.
      limit: how many records at most.

    >>> tf.io.parse_example(batch, parse_spec("train-*"))  # doctest: +SKIP
    """
    read = schema(files, compression=compression, limit=limit)
    if not read.records:
        raise InputError(f"parse_spec: there are no records in {files!r} to look at.")
    if read.sequences:
        raise InputError(
            f"parse_spec: {files!r} holds tf.train.SequenceExample records. Use "
            "`est.records.schema(files)`: its parse_spec() is for the context, its "
            "sequence_spec() for the feature lists."
        )
    return read.parse_spec()
