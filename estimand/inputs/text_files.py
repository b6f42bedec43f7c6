"""`text_input_fn`: lines of text files in batches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.broken_data import (
    SkipCounter,
    check_on_error,
    keep_readable,
    skipped_sentence,
)
from estimand.inputs.files import InputFile, Paths, is_utf8, not_utf8, text_files
from estimand.inputs.lines import (
    BLOCK,
    NOT_UTF8,
    LineFiles,
    caused_by,
    compression_fault,
    decode_blocks,
    is_data,
    missing_file,
    name_in_messages,
    strict_utf8,
)
from estimand.inputs.order import Epoch, Order
from estimand.inputs.remote_pipelines import warn_if_not_counted
from estimand.inputs.sources import note_source

_WHERE = "text_input_fn"


def text_input_fn(
    files: Paths | Mapping[Any, Paths],
    batch_size: int = 128,
    *,
    feature_name: str = "text",
    skip_lines: int = 0,
    comment: str | None = None,
    compression: str | None = None,
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    shuffle_buffer_size: int = 10_000,
    seed: int | None = None,
    drop_remainder: bool = False,
    on_error: str = "raise",
) -> TextInputFn:
    """An input function that reads lines of text: features are {"text": one line per row}.

    Blank lines are left out. A line that is not UTF-8 counts as broken. `shuffle` and
    `num_epochs` are decided by the mode where they are None, as in `csv_input_fn`.

    Args:
      files: a path, a pattern such as "data/*.txt", or a list of them. A dict from class to
        files also gives labels: 0 for the lines of its first entry, 1 for those of the second…
      batch_size: lines per batch.
      feature_name: the key under which the lines stand.
      skip_lines: how many lines at the start of every file are not data.
      comment: lines that begin with it are left out.
      compression: "GZIP", "ZLIB" or ""; None decides by the ending .gz.
      num_epochs: how often to read all lines. None: for ever in training, else once.
      shuffle: whether to shuffle the lines. None: only in training.
      shuffle_buffer_size: how many lines are shuffled among each other at a time.
      seed: for an order that is the same in every run.
      drop_remainder: leave out a last batch that is smaller than the others.
      on_error: "raise" stops at the first broken line and names it; "skip" leaves such lines
        out and reports how many there were.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "poem.txt")
    >>> _ = open(path, "w").write("tiger, tiger\\n\\nburning bright\\n")
    >>> next(iter(text_input_fn(path)(mode="eval")))["text"].numpy().tolist()
    [b'tiger, tiger', b'burning bright']
    """
    check_on_error(_WHERE, on_error)
    if isinstance(skip_lines, bool) or not isinstance(skip_lines, int) or skip_lines < 0:
        raise InputError(f"{_WHERE}: skip_lines must be a number from 0, given: {skip_lines!r}.")
    order = Order(batch_size, num_epochs, shuffle, shuffle_buffer_size, seed, drop_remainder)
    return TextInputFn(files, order, feature_name, skip_lines, comment, compression, on_error)


@dataclasses.dataclass(frozen=True)
class TextInputFn:
    """What `text_input_fn` returns: call it for a Dataset."""

    files: Paths | Mapping[Any, Paths]
    order: Order
    feature_name: str
    skip_lines: int
    comment: str | None
    compression: str | None
    on_error: str

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        if self.on_error == "skip":
            warn_if_not_counted(_WHERE, "lines")
        order = self.order.for_mode(mode)
        reading = TextReading(self)
        note_source(reading)
        return reading.dataset(order, input_context)


class TextReading:
    """One Dataset over text files: how it is built, and what it can say of its faults."""

    def __init__(self, asked: TextInputFn) -> None:
        self._asked = asked
        by_class = asked.files if isinstance(asked.files, Mapping) else {None: asked.files}
        if not by_class:
            raise InputError(f"{_WHERE}: an empty dict of files was given.")
        texts = [text_files(_WHERE, files, asked.compression) for files in by_class.values()]
        self._files = tuple(file for files in texts for file in files)
        self._labels = tuple(label for label, files in enumerate(texts) for _ in files)
        self._counter = SkipCounter() if asked.on_error == "skip" else None

    def dataset(self, order: Order, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        labelled = isinstance(self._asked.files, Mapping)
        skip = (self._asked.skip_lines,) * len(self._files)
        files = LineFiles(self._files, skip, self._labels if labelled else None)
        share, comment = files.share_of(context), self._asked.comment
        share.check_not_empty(_WHERE, comment, self._can_be_read)

        def rows_of(epoch: Epoch | None) -> tf.data.Dataset:
            return share.lines(epoch, comment)

        readable = None if self._counter is None else self._readable
        decode = decode_blocks(share, comment, self._finish, readable)
        return order.decoded(rows_of, decode, BLOCK)

    def _readable(self, blocks: tf.data.Dataset, size: int) -> tf.data.Dataset:
        assert self._counter is not None
        return keep_readable(blocks, strict_utf8, self._counter, size)

    def _can_be_read(self, line: bytes) -> bool:
        return self._counter is None or is_utf8(line)

    def _finish(self, lines: tf.Tensor, labels: tf.Tensor | None = None) -> Any:
        lines = lines if self._counter is not None else strict_utf8(lines)
        features = {self._asked.feature_name: lines}
        return features if labels is None else (features, labels)

    def explain_error(self, error: BaseException) -> Exception | None:
        if not caused_by(error, NOT_UTF8):
            return None
        gone = missing_file(_WHERE, self._files) or compression_fault(_WHERE, self._files)
        if gone is not None:
            return gone
        fault = self._first_fault
        if fault is None:
            return None
        return InputError(f"{fault} To leave such lines out and have them counted, pass "
                          "on_error='skip'.")  # fmt: skip

    def report_skipped(self) -> str | None:
        of = name_in_messages(self._files, self._asked.files)
        return skipped_sentence(self._counter, "lines", of, self._first_place)

    def _first_place(self) -> str | None:
        return self._first_fault and self._first_fault.removeprefix(f"{_WHERE}: ")

    @functools.cached_property
    def _first_fault(self) -> str | None:
        return next(filter(None, map(self._fault_in, self._files)), None)

    def _fault_in(self, file: InputFile) -> str | None:
        for number, line in file.lines():
            if number > self._asked.skip_lines and is_data(line, self._asked.comment):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return not_utf8(_WHERE, file.path, number, line, error)
        return None
