"""Lines of many text files as one Dataset, in blocks, of TensorFlow ops only."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.files import InputFile
from estimand.inputs.order import Epoch

# What is done to lines one by one costs more than reading them; done to blocks it is free.
BLOCK = 1024
_FILES_AT_A_TIME = 4
_LINES_IN_TURN = 16
_CUT_FILE = "estimand_whole_file"


@dataclasses.dataclass(frozen=True)
class LineFiles:
    """Text files, with how many lines at the start of each are not data.

    With labels, one per file, rows are (line, label) in place of lines.
    """

    files: tuple[InputFile, ...]
    skip: tuple[int, ...]
    labels: tuple[int, ...] | None = None
    every: tuple[int, int] = (1, 0)  # (n, i): only the i-th of every n lines

    def share_of(self, context: tf.distribute.InputContext | None) -> LineFiles:
        """What one of several input pipelines reads: whole files if there are enough of them."""
        if context is None or context.num_input_pipelines == 1:
            return self
        number, own = context.num_input_pipelines, context.input_pipeline_id
        if len(self.files) < number:
            return dataclasses.replace(self, every=(number, own))
        part = slice(own, None, number)
        labels = None if self.labels is None else self.labels[part]
        return LineFiles(self.files[part], self.skip[part], labels)

    def blocks(self, epoch: Epoch | None, comment: str | None) -> tf.data.Dataset:
        """Blocks of up to BLOCK lines of data; when shuffling, from several files in turn."""
        files = self._listed(epoch)
        if epoch is None or len(self.files) == 1 or self.every[0] > 1:
            # All pipelines that share the lines have to see them in the same order.
            lines = files.flat_map(_lines_of)
        else:
            at_a_time = min(_FILES_AT_A_TIME, len(self.files))
            lines = files.interleave(_lines_of, at_a_time, _LINES_IN_TURN)
        blocks = lines.batch(BLOCK)
        if any(file.has_bom for file, skip in zip(self.files, self.skip, strict=True) if not skip):
            blocks = blocks.map(tf.autograph.experimental.do_not_convert(_without_bom))
        blocks = without(blocks, comment)
        if self.every[0] > 1:
            blocks = blocks.unbatch().shard(*self.every).batch(BLOCK)
        return blocks

    def _listed(self, epoch: Epoch | None) -> tf.data.Dataset:
        parts = [
            tf.constant([file.path for file in self.files]),
            tf.constant([file.compression for file in self.files]),
            tf.constant(self.skip, tf.int64),
        ]
        if self.labels is not None:
            parts.append(tf.constant(self.labels, tf.int64))
        if epoch is not None and self.every[0] == 1:
            order = epoch.permutation(len(self.files))
            parts = [tf.gather(part, order) for part in parts]
        return tf.data.Dataset.from_tensor_slices(tuple(parts))

    def rows(self, comment: str | None) -> Iterator[tuple[InputFile, int, bytes]]:
        """The lines of data of all files, read by Python."""
        for file, skip in zip(self.files, self.skip, strict=True):
            for number, line in file.lines():
                if number > skip and is_data(line, comment):
                    yield file, number, line

    def check_not_empty(
        self, where: str, comment: str | None, readable: Callable[[bytes], bool]
    ) -> None:
        """There is a line for every pipeline; none at all would be waited for for ever."""
        lines = (line for _, _, line in self.rows(comment) if readable(line))
        needed = self.every[0]
        there = len(list(itertools.islice(lines, needed)))
        if there < needed:
            too_few = f"only {there} for {needed} input pipelines" if there else "none"
            raise InputError(
                f"{where}: of the lines of {name_in_messages(self.files, None)} that are data, "
                f"{too_few} can be read."
            )


@tf.autograph.experimental.do_not_convert
def _lines_of(
    path: tf.Tensor, compression: tf.Tensor, skip: tf.Tensor, *label: tf.Tensor
) -> tf.data.Dataset:
    lines = tf.data.TextLineDataset(path, compression).skip(skip)
    # TensorFlow reads a compressed file that was cut short without a word, as if it ended there.
    compressed = tf.cast(tf.strings.length(compression) > 0, tf.int64)
    end = tf.data.Dataset.from_tensors((path, compression)).take(compressed)
    lines = lines.concatenate(end.map(_nothing_if_whole).unbatch())
    if not label:
        return lines
    return tf.data.Dataset.zip((lines, tf.data.Dataset.from_tensors(label[0]).repeat()))


def _without_bom(lines: tf.Tensor, *rest: tf.Tensor) -> Any:
    return _row(tf.strings.regex_replace(lines, "^\ufeff", ""), *rest)


def _row(*parts: tf.Tensor) -> Any:
    return parts if len(parts) > 1 else parts[0]


@tf.autograph.experimental.do_not_convert
def _nothing_if_whole(path: tf.Tensor, compression: tf.Tensor) -> tf.Tensor:
    # Declared stateless, as it is: then the position of the pipeline can be saved.
    nothing = tf.numpy_function(
        _assert_whole, [path, compression], tf.string, stateful=False, name=_CUT_FILE
    )
    return tf.ensure_shape(nothing, [0])


def _assert_whole(path: bytes, compression: bytes) -> np.ndarray:
    file = InputFile(path.decode(), compression.decode())
    fault = _fault_of(file, _state_of(file))
    if fault:
        raise ValueError(fault)
    return np.array([], object)


def _state_of(file: InputFile) -> tuple[int, int]:
    stat = tf.io.gfile.stat(file.path)
    return stat.length, stat.mtime_nsec


@functools.lru_cache(maxsize=4096)
def _fault_of(file: InputFile, state: tuple[int, int]) -> str | None:
    """Why a compressed file cannot be decompressed to its end; looked for once per file."""
    del state  # a file that was written anew is looked at anew
    try:
        with file.open() as opened:
            while opened.read(2**20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        return f"{file.path}: {error}"
    return None


def compression_fault(where: str, files: Sequence[InputFile]) -> InputError | None:
    """The first file that is cut or damaged, told in a sentence."""
    for file in files:
        if not file.compression or not tf.io.gfile.exists(file.path):
            continue
        fault = _fault_of(file, _state_of(file))
        if fault:
            return InputError(
                f"{where}: {fault}. The compressed file is cut or damaged; copy or write it again."
            )
    return None


def missing_file(where: str, files: Sequence[InputFile]) -> InputError | None:
    """The first file that has gone since reading began."""
    for file in files:
        if not tf.io.gfile.exists(file.path):
            return InputError(f"{where}: {file.path} is no longer there.")
    return None


def without(blocks: tf.data.Dataset, comment: str | None) -> tf.data.Dataset:
    """Blocks without blank lines, and without those that begin with `comment`."""

    def keep(*parts: tf.Tensor) -> Any:
        wanted = tf.strings.length(parts[0]) > 0
        if comment:
            # Lines that are shorter than the comment mark give what there is of them.
            wanted &= tf.strings.substr(parts[0], 0, len(comment.encode())) != comment
        # Most blocks have nothing to leave out, and leaving out copies every line.
        kept = tf.cond(
            tf.reduce_all(wanted),
            lambda: [tf.identity(part) for part in parts],
            lambda: [tf.boolean_mask(part, wanted) for part in parts],
        )
        return _row(*kept)

    return blocks.map(tf.autograph.experimental.do_not_convert(keep))


def is_data(line: bytes, comment: str | None) -> bool:
    """The same decision for one line, in Python."""
    return bool(line) and not (comment and line.startswith(comment.encode()))


def caused_by(error: BaseException, *names: str) -> bool:
    """Whether an error comes from reading: from ops of these names, or from the file system."""
    if not isinstance(error, tf.errors.OpError):
        return False
    if isinstance(error, (tf.errors.NotFoundError, tf.errors.DataLossError)):
        return True
    return any(name in error.message for name in (*names, _CUT_FILE, "inflate()"))


def name_in_messages(files: Sequence[InputFile], given: Any) -> str:
    """What the user wrote, if it was one thing; else the first file and how many more."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    rest = len(files) - 1
    more = f" and {rest} more file{'s' if rest > 1 else ''}" if rest else ""
    return files[0].path + more
