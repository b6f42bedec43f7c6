"""Which record of which file is at fault, and how many were left out."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import EstimandError, InputError
from estimand.inputs.lines import CUT_FILE
from estimand.inputs.records.reading import decode, numbered, values_of
from estimand.inputs.records.verifying import FileReport, verify
from estimand.inputs.tfrecord.parsing import Parser

_OUR_ERRORS = re.compile(
    r"pars(e|ing) |Key: |required but could not be found|corrupted record|truncated record|"
    rf"[Ii]nflate|[Ff]eature|{CUT_FILE}"
)
_RECORDS_AT_ONCE = 512
# TensorFlow quotes a record that is no Example, and fails to decode its own message if that is
# not text.
OUR_TYPES = (tf.errors.OpError, UnicodeDecodeError)
_KIND = {tf.string: "bytes", tf.float32: "float", tf.int64: "int64"}


def explain(
    error: BaseException, paths: list[str], compressions: list[str], parser: Parser
) -> Exception | None:
    """What to say in place of TensorFlow's error; None where the files are not at fault."""
    if not isinstance(error, OUR_TYPES):
        return None
    damage = isinstance(
        error, (tf.errors.DataLossError, tf.errors.NotFoundError, UnicodeDecodeError)
    )
    if not damage and not _OUR_ERRORS.search(str(error)):
        return None
    for path, compression in zip(paths, compressions, strict=True):
        if not os.path.exists(path) and "://" not in path:
            return InputError(f"tfrecord_input_fn: the file {path!r} is no longer there.")
        report = verify(path, compression=compression)[0]
        if not report.ok:
            return damaged(report)
        fault = _first_unparsable(path, compression, parser)
        if fault is not None:
            return InputError(f"tfrecord_input_fn: {path}: {fault}. {_ADVICE}")
    return None


def damaged(report: FileReport) -> InputError:
    return InputError(f"tfrecord_input_fn: {report}. {_ADVICE}")


_ADVICE = "Repair the file, or pass on_error='skip' to leave out what cannot be read."


def _first_unparsable(path: str, compression: str, parser: Parser) -> str | None:
    records = _until_damage(numbered(path, compression, "tfrecord_input_fn"))
    while block := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        if _failure(parser, [data for _, _, data in block]) is None:
            continue
        for _, number, data in block:
            failure = _failure(parser, [data])
            if failure is not None:
                place = _place(path, compression, number)
                return f"record {number} (at byte {place}): {_why(data, path, parser, failure)}"
    return None


def _until_damage(records: Iterator[Any]) -> Iterator[Any]:
    with contextlib.suppress(InputError):
        yield from records


def _failure(parser: Parser, data: list[bytes]) -> str | None:
    try:
        with tf.device("/cpu:0"):
            parser.parse(tf.constant(data))
    except OUR_TYPES as error:
        return getattr(error, "message", "it cannot be parsed")
    return None


def _place(path: str, compression: str, number: int) -> int:
    sizes = (len(data) + 16 for _, _, data in numbered(path, compression, "tfrecord_input_fn"))
    return sum(itertools.islice(sizes, number))


def _why(data: bytes, path: str, parser: Parser, failure: str) -> str:
    """The feature at fault, in words; TensorFlow's own where we find none."""
    try:
        context, lists = decode(data, path, 0)
    except EstimandError:
        return f"its {len(data)} bytes are not a tf.train.Example"
    for name, spec in parser.features.items():
        fault = _fault_of_feature(context.get(name) if name in context else None, spec)
        if fault:
            return f"feature {name!r} {fault}"
    for name, spec in parser.sequences.items():
        if name not in lists and not getattr(spec, "allow_missing", True):
            return f"feature list {name!r} is missing"
        for number, step in enumerate(lists[name].feature if name in lists else ()):
            kind = values_of(step)[0]
            if kind not in (None, _KIND.get(spec.dtype)):
                return f"feature list {name!r}, step {number} holds {kind} values, not {spec.dtype}"
    return failure.partition("\n")[0]


def _fault_of_feature(message: Any, spec: Any) -> str | None:
    fixed = isinstance(spec, tf.io.FixedLenFeature)
    kind, values = (None, ()) if message is None else values_of(message)
    if (not len(values) and kind is None) or (fixed and message is None):
        missing = fixed and spec.default_value is None
        return f"is missing; {_shown(spec)} without a default needs it" if missing else None
    wanted = _KIND.get(getattr(spec, "dtype", None))
    if wanted is not None and kind != wanted:
        return f"holds {kind} values ({_start(values)}); {_shown(spec)} wants {wanted}"
    if fixed:
        count = int(np.prod(spec.shape, dtype=np.int64))
        if len(values) != count:
            return f"holds {len(values)} values ({_start(values)}); {_shown(spec)} wants {count}"
    return None


def _shown(spec: Any) -> str:
    shape = f"{list(spec.shape)}, " if isinstance(spec, tf.io.FixedLenFeature) else ""
    return f"{type(spec).__name__}({shape}{spec.dtype.name})"


def _start(values: Any) -> str:
    shown = ", ".join(repr(value)[:40] for value in list(values)[:3])
    return shown + (", ..." if len(values) > 3 else "")


def readable(paths: list[str], compression: str | None) -> Iterator[tuple[str, int, bytes]]:
    """As `numbered`, passing over damage and over what is not an Example."""
    for path in paths:
        with contextlib.suppress(InputError):
            for record in numbered(path, compression, "tfrecord_input_fn"):
                with contextlib.suppress(InputError):
                    decode(record[2], path, record[1])
                    yield record


class Losses:
    """What was left out with on_error="skip", counted inside the pipeline."""

    def __init__(self, paths: list[str], compressions: list[str], parser: Parser) -> None:
        self._paths, self._compressions, self._parser = paths, compressions, parser
        # The input function may be called while a graph is built; the counters outlive that.
        with tf_private.eager_mode(), tf.init_scope(), tf.device("/cpu:0"):
            self._unparsable = tf.Variable(0, dtype=tf.int64, trainable=False, name="skipped")
            # Damage ends a file early without a trace, so what was read to its end is looked at.
            self._ends = tf.Variable(
                np.zeros(len(paths)), dtype=tf.int64, trainable=False, name="files_read"
            )
        self._told_records = 0
        self._looked_at: set[int] = set()

    def count(self, records: tf.Tensor) -> None:
        """Note records that did not parse."""
        self._unparsable.assign_add(records, read_value=False)

    def note_end_of(self, number: tf.Tensor) -> tf.data.Dataset:
        """No records, but a note that a file was read to its end."""

        @tf.autograph.experimental.do_not_convert
        def note(number: tf.Tensor) -> tf.Tensor:
            # Adding without reading back is what lets a position be saved all the same.
            one_hot = tf.one_hot(number, len(self._paths), dtype=tf.int64)
            with tf.control_dependencies([self._ends.assign_add(one_hot, read_value=False)]):
                return tf.constant(False)

        ended = tf.data.Dataset.from_tensors(number).filter(note)
        return ended.map(tf.autograph.experimental.do_not_convert(lambda number: tf.constant(b"")))

    def report(self) -> str | None:
        """One sentence on what was left out since the last call."""
        with tf_private.eager_mode():
            records = int(self._unparsable.numpy()) - self._told_records
            ends = self._ends.numpy()
        self._told_records += records
        said = []
        if records:
            said.append(f"{records} record(s) that do not parse{self._first_unparsable}")
        said += [_loss_by(report) for report in self._newly_damaged(ends)]
        return f"tfrecord_input_fn left out {'; '.join(said)}." if said else None

    @functools.cached_property
    def _first_unparsable(self) -> str:
        for path, compression in zip(self._paths, self._compressions, strict=True):
            fault = _first_unparsable(path, compression, self._parser)
            if fault is not None:
                return f", the first in {path}: {fault}"
        return ""

    def _newly_damaged(self, ends: np.ndarray) -> list[FileReport]:
        faults = []
        for number in np.flatnonzero(ends).tolist():
            if number in self._looked_at:
                continue
            report = verify(self._paths[number], compression=self._compressions[number])[0]
            self._looked_at.add(number)
            if not report.ok:
                faults.append(report)
        return faults


def _loss_by(report: FileReport) -> str:
    first = report.problems[0]
    behind = report.records - first.record
    lost = f"and {behind} good record(s) behind it" if behind else "and all that follows"
    if not report.compression:
        size = report.file_bytes - first.offset
        lost += f", {size:,} of {report.file_bytes:,} bytes"
    return f"of {report.path} the damaged record {first.record} {lost} ({first})"
