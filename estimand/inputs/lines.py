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
from estimand.inputs.files import InputFile, usable_cores
from estimand.inputs.order import Epoch
from estimand.inputs.remote_pipelines import runs_elsewhere

# What is done to lines one by one costs more than reading them; done to blocks it is free.
BLOCK = 1024
_FILES_AT_A_TIME = 4
_LINES_IN_TURN = 16
CUT_FILE = "estimand_whole_file"
NOT_UTF8 = "estimand_check_utf8"


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

    def lines(self, epoch: Epoch | None, comment: str | None) -> tf.data.Dataset:
        """Lines, those that are no data among them; when shuffling, from several files in turn."""
        parts = self._listed(epoch)
        files = tf.data.Dataset.from_tensor_slices(parts)
        compressed = any(file.compression for file in self.files)
        read = functools.partial(_lines_of, compressed and not runs_elsewhere())
        if len(self.files) == 1:
            lines = read(*(part[0] for part in parts))
        elif epoch is None or self.every[0] > 1:
            # All pipelines that share the lines have to see them in the same order.
            lines = files.flat_map(read)
        else:
            at_a_time = min(_FILES_AT_A_TIME, len(self.files))
            lines = files.interleave(read, at_a_time, _LINES_IN_TURN)
        if self.every[0] > 1:
            # Blank lines are left out first: else a pipeline might get nothing but them.
            data = functools.partial(self.only_data, comment=comment)
            lines = lines.batch(BLOCK).map(tf.autograph.experimental.do_not_convert(data))
            lines = lines.unbatch().shard(*self.every)
        return lines

    def only_data(self, *block: tf.Tensor, comment: str | None) -> Any:
        """A block without byte order marks, blank lines and lines that begin with `comment`."""
        if any(file.has_bom for file, skip in zip(self.files, self.skip, strict=True) if not skip):
            block = (tf.strings.regex_replace(block[0], "^\ufeff", ""), *block[1:])
        return _without(block, comment)

    def _listed(self, epoch: Epoch | None) -> tuple[tf.Tensor, ...]:
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
        return tuple(parts)

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
        check_whole_if_elsewhere(where, self.files)
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
    compressed: bool, path: tf.Tensor, compression: tf.Tensor, skip: tf.Tensor, *label: tf.Tensor
) -> tf.data.Dataset:
    lines = tf.data.TextLineDataset(path, compression).skip(skip)
    if compressed:
        lines = lines.concatenate(nothing_if_whole(path, compression))
    if not label:
        return lines
    return tf.data.Dataset.zip((lines, tf.data.Dataset.from_tensors(label[0]).repeat()))


def nothing_if_whole(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """No strings; an error if the file is compressed and was cut.

    TensorFlow reads such a file without a word, as if it ended there.
    """
    compressed = tf.cast(tf.strings.length(compression) > 0, tf.int64)
    end = tf.data.Dataset.from_tensors((path, compression)).take(compressed)
    return end.map(_nothing_if_whole).unbatch()


@tf.autograph.experimental.do_not_convert
def _nothing_if_whole(path: tf.Tensor, compression: tf.Tensor) -> tf.Tensor:
    # Declared stateless, as it is: then the position of the pipeline can be saved.
    nothing = tf.numpy_function(
        _assert_whole, [path, compression], tf.string, stateful=False, name=CUT_FILE
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


def check_whole_if_elsewhere(where: str, files: Sequence[InputFile]) -> None:
    """Look through compressed files now, where their reading cannot end with looking at them."""
    if runs_elsewhere():
        fault = compression_fault(where, files)
        if fault is not None:
            raise fault


def missing_file(where: str, files: Sequence[InputFile]) -> InputError | None:
    """The first file that has gone since reading began."""
    for file in files:
        if not tf.io.gfile.exists(file.path):
            return InputError(f"{where}: {file.path} is no longer there.")
    return None


def _without(block: tuple[tf.Tensor, ...], comment: str | None) -> Any:
    wanted = tf.strings.length(block[0]) > 0
    if comment:
        # Lines that are shorter than the comment mark give what there is of them.
        wanted &= tf.strings.substr(block[0], 0, len(comment.encode())) != comment
    # Most blocks have nothing to leave out, and leaving out copies every line.
    kept = tf.cond(
        tf.reduce_all(wanted),
        lambda: [tf.identity(part) for part in block],
        lambda: [tf.boolean_mask(part, wanted) for part in block],
    )
    return tuple(kept) if len(kept) > 1 else kept[0]


def decode_blocks(
    lines: LineFiles,
    comment: str | None,
    decode: Callable[..., Any],
    readable: Callable[[tf.data.Dataset, int], tf.data.Dataset] | None,
) -> Callable[[tf.data.Dataset, int], tf.data.Dataset]:
    """Blocks of lines to blocks of what `decode` makes of them, for `Order.decoded`."""

    def clean(*block: tf.Tensor) -> Any:
        return lines.only_data(*block, comment=comment)

    def clean_and_decode(*block: tf.Tensor) -> Any:
        cleaned = clean(*block)
        return decode(*cleaned) if isinstance(cleaned, tuple) else decode(cleaned)

    plain = tf.autograph.experimental.do_not_convert

    def decoded(blocks: tf.data.Dataset, size: int) -> tf.data.Dataset:
        step = clean_and_decode
        if readable is not None:
            blocks, step = readable(blocks.map(plain(clean)), size), decode
        return blocks.map(plain(step), num_parallel_calls=usable_cores(), deterministic=True)

    return decoded


def strict_utf8(lines: tf.Tensor) -> tf.Tensor:
    """The lines themselves; fails if one of them is not UTF-8."""
    # Transcoding takes ten times as long as reading: it only has to raise the error. One match
    # of all lines together takes a tenth of the time of matching each, and to see that all bytes
    # are ASCII a third of that.
    joined = tf.strings.reduce_join(lines, separator="\n")
    ascii = tf.reduce_all(tf.io.decode_raw(joined, tf.int8) >= 0)
    good = tf.cond(ascii, lambda: True, lambda: tf.strings.regex_full_match(joined, r"(?s).*"))
    return tf.cond(
        good,
        lambda: lines,
        lambda: tf.strings.unicode_transcode(
            lines, "UTF-8", "UTF-8", errors="strict", name=NOT_UTF8
        ),
    )


def is_data(line: bytes, comment: str | None) -> bool:
    """The same decision for one line, in Python."""
    return bool(line) and not (comment and line.startswith(comment.encode()))


def caused_by(error: BaseException, *names: str) -> bool:
    """Whether an error comes from reading: from ops of these names, or from the file system."""
    if not isinstance(error, tf.errors.OpError):
        return False
    if isinstance(error, (tf.errors.NotFoundError, tf.errors.DataLossError)):
        return True
    return any(name in error.message for name in (*names, CUT_FILE, "inflate()"))


def name_in_messages(files: Sequence[InputFile], given: Any) -> str:
    """What the user wrote, if it was one thing; else the first file and how many more."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    rest = len(files) - 1
    more = f" and {rest} more file{'s' if rest > 1 else ''}" if rest else ""
    return files[0].path + more
