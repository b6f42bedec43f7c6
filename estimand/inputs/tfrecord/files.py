"""An input function over TFRecord files: batches are parsed, never single examples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.inputs.files import InputFile, usable_cores
from estimand.inputs.lines import check_whole_if_elsewhere, nothing_if_whole
from estimand.inputs.records.files import (
    Paths,
    check_compression,
    compression_of,
    ends_with_a_record,
    find_files,
    is_remote,
)
from estimand.inputs.records.reading import numbered
from estimand.inputs.records.schemas import Schema, look_at
from estimand.inputs.records.verifying import verify
from estimand.inputs.remote_pipelines import runs_elsewhere, warn_if_not_counted
from estimand.inputs.sources import note_source
from estimand.inputs.tfrecord import cache as tfrecord_cache
from estimand.inputs.tfrecord import faults as tfrecord_faults
from estimand.inputs.tfrecord.parsing import Parser, keep_what_parses

_WHERE = "tfrecord_input_fn"
# Small batches are parsed several at a time and then cut: a third faster with batches of 128.
_ROWS_PARSED_AT_ONCE = 1024
# Enough to know the features of a file; a spec that is given costs nothing.
_RECORDS_LOOKED_AT = 1000
# Files open at the same time while shuffling, and records read from one before the next.
_CYCLE, _BLOCK = 4, 16
_REMOTE_READERS = 16


def tfrecord_input_fn(
    files: Paths,
    features: Mapping[str, Any] | None = None,
    label_key: str | Sequence[str] | None = None,
    batch_size: int = 128,
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    *,
    shuffle_buffer: int = 10_000,
    sequence_features: Mapping[str, Any] | None = None,
    compression: str | None = None,
    readers: int | None = None,
    on_error: str = "raise",
    drop_remainder: bool = False,
    cache: bool = False,
) -> TFRecordInput:
    """An input function that reads tf.train.Example records in batches.

    Args:
      files: a name, a pattern such as "data/train-*", or several of them.
      features: what to parse, as for `tf.io.parse_example`, e.g. what `make_parse_example_spec`
        gives; None: whatever the first records hold.
      label_key: the feature that is the label, or several (labels are then a dict); None: no
        labels.
      batch_size: records per batch.
      num_epochs: how often to read all records. None reads them for ever when training, once
        otherwise.
      shuffle: whether to shuffle files and records; None: when training. Without, records come
        in the order of the files.
      shuffle_buffer: among how many records the next one is drawn.
      sequence_features: feature lists to parse, as for `tf.io.parse_sequence_example`; the
        records are then tf.train.SequenceExample and `features` is their context.
      compression: None looks at each file; "", "GZIP" or "ZLIB".
      readers: how many files to read in parallel; None: as suits the file system.
      on_error: "raise" stops at a damaged file or a record that does not parse, with an error
        that names it; "skip" leaves out such records, and what follows damage in a file, and
        reports how many.
      drop_remainder: leave out a last batch that is smaller than the others.
      cache: read and parse everything once, at the start, and keep it in memory.

    With a distribution strategy each worker reads its own files, or, where there are fewer files
    than workers, its own records.

    >>> import os, tempfile
    >>> import estimand as est
    >>> path = os.path.join(tempfile.mkdtemp(), "train.tfrecord")
    >>> _ = est.records.write(path, {"x": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
    >>> read = tfrecord_input_fn(path, label_key="y", batch_size=2)
    >>> for features, labels in read(mode="eval"):
    ...     print(features["x"].numpy(), labels.numpy())
    [1. 2.] [0 1]
    [3.] [0]
    """
    return TFRecordInput(
        files=files,
        features=features,
        label_key=label_key,
        batch_size=batch_size,
        num_epochs=num_epochs,
        shuffle=shuffle,
        shuffle_buffer=shuffle_buffer,
        sequence_features=sequence_features,
        compression=check_compression(compression, _WHERE),
        readers=readers,
        on_error=on_error,
        drop_remainder=drop_remainder,
        cache=cache,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TFRecordInput:
    """The input function that `tfrecord_input_fn` makes."""

    files: Paths
    features: Mapping[str, Any] | None
    label_key: str | Sequence[str] | None
    batch_size: int
    num_epochs: int | None
    shuffle: bool | None
    shuffle_buffer: int
    sequence_features: Mapping[str, Any] | None
    compression: str | None
    readers: int | None
    on_error: str
    drop_remainder: bool
    cache: bool
    _built: list[_Built] = dataclasses.field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("shuffle_buffer", 1)):
            if getattr(self, name) < least:
                raise InputError(
                    f"{_WHERE}: {name} must be at least {least}, given: {getattr(self, name)}."
                )
        for name in ("num_epochs", "readers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{_WHERE}: {name} must be None or at least 1, given: {value}.")
        if self.on_error not in ("raise", "skip"):
            raise InputError(
                f"{_WHERE}: on_error must be 'raise' or 'skip', given: {self.on_error!r}."
            )

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        training = mode == ModeKeys.TRAIN
        plan = _Plan(
            shuffle=training if self.shuffle is None else self.shuffle,
            epochs=self.num_epochs or (None if training else 1),
            context=input_context,
        )
        built = self._build()
        del self._built[:]
        self._built.append(built)
        note_source(self)
        with tf.device("/cpu:0"):
            return self._pipeline(built, plan)

    # What the engine asks after reading

    def explain_error(self, error: BaseException) -> Exception | None:
        if not self._built:
            return None
        built = self._built[-1]
        return tfrecord_faults.explain(error, built.paths, built.compressions, built.parser)

    def report_skipped(self) -> str | None:
        return self._built[-1].losses.report() if self._built else None

    # Building

    def _build(self) -> _Built:
        paths = find_files(self.files, _WHERE)
        _check_not_empty(paths)
        compressions = [
            compression_of(path) if self.compression is None else self.compression for path in paths
        ]
        if self.on_error == "raise":
            _check_whole(paths, compressions)
        else:
            warn_if_not_counted(_WHERE, "records")
            _check_some_readable(paths, compressions)
        parser = self._parser(paths)
        losses = tfrecord_faults.Losses(paths, compressions, parser)
        return _Built(paths, compressions, parser, losses)

    def _parser(self, paths: list[str]) -> Parser:
        features, sequences = self.features, self.sequence_features
        if features is None:
            looked_at = self._look(paths)
            features = looked_at.parse_spec()
            if sequences is None and looked_at.sequences:
                sequences = looked_at.sequence_spec()
        return Parser(dict(features), dict(sequences or {}), self.label_key, _WHERE)

    def _look(self, paths: list[str]) -> Schema:
        records = numbered(paths, self.compression, _WHERE)
        if self.on_error == "skip":
            records = tfrecord_faults.readable(paths, self.compression)
        looked_at = look_at(records, _RECORDS_LOOKED_AT)
        if not looked_at.records:
            raise InputError(f"{_WHERE}: there are no records in {self.files!r}.")
        return looked_at

    def _pipeline(self, built: _Built, plan: _Plan) -> tf.data.Dataset:
        if self.cache:
            return self._from_memory(built, plan)
        dataset = self._records(built, plan)
        if plan.shuffle:
            dataset = dataset.shuffle(self.shuffle_buffer)
        dataset = self._parsed(dataset.repeat(plan.epochs), built, self.drop_remainder)
        return dataset.prefetch(2).with_options(_options())

    def _from_memory(self, built: _Built, plan: _Plan) -> tf.data.Dataset:
        once = self._records(built, _Plan(False, 1, plan.context))
        try:
            dataset = tfrecord_cache.from_memory(
                self._parsed(once, built, False).with_options(_options()),
                plan.shuffle,
                plan.epochs,
                self.batch_size,
                self.drop_remainder,
            )
        except tfrecord_faults.OUR_TYPES as error:
            raise self.explain_error(error) or error from None
        return dataset.with_options(_options())

    def _records(self, built: _Built, plan: _Plan) -> tf.data.Dataset:
        """Serialized records, one by one."""
        numbers = tf.data.Dataset.range(len(built.paths))
        by_file, shards, shard = plan.sharding(len(built.paths))
        if by_file:
            numbers = numbers.shard(shards, shard)
        # Workers that share the records have to see them in the same order, or some would come
        # twice and others never.
        if plan.shuffle and by_file and len(built.paths) > 1:
            numbers = numbers.shuffle(len(built.paths))
        read = _reader(built, skip=self.on_error == "skip")
        readers = self.readers or (_REMOTE_READERS if is_remote(built.paths[0]) else 1)
        cycle = max(readers, _CYCLE if plan.shuffle else 1)
        if len(built.paths) == 1:
            dataset = read(tf.constant(0, tf.int64))
        elif cycle == 1:
            dataset = numbers.flat_map(read)
        else:
            parallel = {"num_parallel_calls": readers, "deterministic": True}
            dataset = numbers.interleave(
                read, cycle_length=cycle, block_length=_BLOCK, **(parallel if readers > 1 else {})
            )
        return dataset if by_file else dataset.shard(shards, shard)

    def _parsed(
        self, records: tf.data.Dataset, built: _Built, drop_remainder: bool
    ) -> tf.data.Dataset:
        parser, size = built.parser, self.batch_size
        cut = parser.dense
        rows = size * max(1, _ROWS_PARSED_AT_ONCE // size) if cut else size
        skip = self.on_error == "skip"
        if skip and drop_remainder and not cut:
            raise InputError(
                f"{_WHERE}: on_error='skip' with drop_remainder=True needs features of fixed "
                f"length; these are not: {parser.variable_names}. Give up one of the two."
            )
        batches = records.batch(rows, drop_remainder=drop_remainder and not cut)
        parse: Callable[..., Any] = keep_what_parses(parser, built.losses.count) if skip else parser
        cores = usable_cores()
        dataset = batches.map(parse, num_parallel_calls=cores, deterministic=True)
        if skip:
            dataset = dataset.filter(_has_rows)
        if cut:
            dataset = dataset.rebatch(size, drop_remainder=drop_remainder)
        return dataset


@dataclasses.dataclass(frozen=True)
class _Built:
    """What one call found and made."""

    paths: list[str]
    compressions: list[str]
    parser: Parser
    losses: tfrecord_faults.Losses


@dataclasses.dataclass(frozen=True)
class _Plan:
    """In which order, and how often, and which part."""

    shuffle: bool
    epochs: int | None
    context: tf.distribute.InputContext | None

    def sharding(self, files: int) -> tuple[bool, int, int]:
        """(whether by file, number of parts, this part)."""
        if self.context is None or self.context.num_input_pipelines == 1:
            return True, 1, 0
        shards, shard = self.context.num_input_pipelines, self.context.input_pipeline_id
        return files >= shards, shards, shard


def _reader(built: _Built, skip: bool) -> Callable[[tf.Tensor], tf.data.Dataset]:
    paths = tf.constant(built.paths)
    compressions = tf.constant(built.compressions)
    alike = len(set(built.compressions)) == 1

    @tf.autograph.experimental.do_not_convert
    def read(number: tf.Tensor) -> tf.data.Dataset:
        compression = built.compressions[0] if alike else tf.gather(compressions, number)
        records = tf.data.TFRecordDataset(tf.gather(paths, number), compression)
        if not skip:
            if runs_elsewhere() or not any(built.compressions):  # _check_whole has looked at them
                return records
            return records.concatenate(nothing_if_whole(tf.gather(paths, number), compression))
        return records.ignore_errors().concatenate(built.losses.note_end_of(number))

    return read


def _has_rows(*batch: Any) -> tf.Tensor:
    first = tf.nest.flatten(batch, expand_composites=True)
    shapes = [leaf for leaf in tf.nest.flatten(batch) if not isinstance(leaf, tf.SparseTensor)]
    if shapes:
        return tf.shape(shapes[0])[0] > 0
    return first[2][0] > 0  # the dense shape of a SparseTensor: indices, values, shape


def _check_not_empty(paths: list[str]) -> None:
    empty = [path for path in paths if not is_remote(path) and os.path.getsize(path) == 0]
    if len(empty) == len(paths):
        what = f"the file {paths[0]!r} is empty (0 bytes)"
        if len(paths) > 1:
            what = f"all {len(paths)} files are empty (0 bytes), {paths[0]!r} the first of them"
        raise InputError(f"{_WHERE}: {what}. Write the records again.")


def _check_whole(paths: list[str], compressions: list[str]) -> None:
    """Name a file that was cut: TensorFlow takes fewer than 12 last bytes for its end."""
    check_whole_if_elsewhere(_WHERE, [InputFile(*f) for f in zip(paths, compressions, strict=True)])
    for path, compression in zip(paths, compressions, strict=True):
        if compression or ends_with_a_record(path):
            continue
        report = verify(path, compression="")[0]
        if not report.ok:
            raise tfrecord_faults.damaged(report)


def _check_some_readable(paths: list[str], compressions: list[str]) -> None:
    """Nothing at all is no part that could be left out: some record of some file is read."""
    for path, compression in zip(paths, compressions, strict=True):
        if next(tfrecord_faults.readable([path], compression), None) is not None:
            return
    report = verify(paths[0], compression=compressions[0])[0]
    raise InputError(
        f"{_WHERE}: no record can be read, of {len(paths)} file(s). {report}. Files in another "
        "format, or compressed in another way than given, are not skipped."
    )


def _options() -> tf.data.Options:
    options = tf.data.Options()
    # Nothing here is left to be tuned, and an iterator with tuning may take seconds to end.
    options.autotune.enabled = False
    # All that is prefetched becomes part of a saved position.
    options.experimental_optimization.inject_prefetch = False
    return options
