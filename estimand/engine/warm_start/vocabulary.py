"""Taking over a variable whose rows or columns belong to the words of a changed vocabulary.

Row i of the new variable is the row that the same word had in the old one. Rows of words that
the old vocabulary lacks, and those of out-of-vocabulary buckets (which come after the words),
are given by the backup initializer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import WarmStartError
from estimand.engine.warm_start.selection import Part
from estimand.engine.warm_start.settings import VocabInfo

# ------------------------------------------------------------------ checks


def check_vocab(
    name: str, info: VocabInfo, full_shape: Sequence[int], key: str, old_shape: Sequence[int]
) -> None:
    """Raise if a variable of `full_shape` cannot be taken from the tensor `key` through `info`."""
    _check_settings(name, info)
    axis, words, buckets = info.axis, info.new_vocab_size, info.num_oov_buckets
    if not (len(full_shape) == len(old_shape) > axis):
        raise WarmStartError(
            f"Variable {name} of shape {tuple(full_shape)} cannot be taken by vocabulary along "
            f"axis {axis} from tensor {key} of shape {tuple(old_shape)}: both must have the same "
            f"number of axes, and at least {axis + 1}."
        )
    size = full_shape[axis]
    # Fewer rows than words are allowed, as upstream does; they are the first words' rows.
    if size > words + buckets or (axis == 1 and size != words + buckets):
        raise WarmStartError(
            f"Variable {name} has {size} entries along axis {axis}, but its VocabInfo says "
            f"new_vocab_size ({words}) + num_oov_buckets ({buckets}) = {words + buckets}. "
            "Expected them to be equal: count the lines of the new vocabulary and the buckets of "
            "the feature column."
        )
    other_axes = [a for a in range(len(full_shape)) if a != axis]
    if [full_shape[a] for a in other_axes] != [old_shape[a] for a in other_axes]:
        raise WarmStartError(
            f"Shape of variable {name}:0 ({tuple(full_shape)}) doesn't match with shape of tensor "
            f"{key} ({list(old_shape)}) from checkpoint reader. Only axis {axis}, that of its "
            "vocabulary, may differ."
        )


def _check_settings(name: str, info: VocabInfo) -> None:
    where = f"In var_name_to_vocab_info[{name!r}]"
    if not isinstance(info, VocabInfo):
        raise WarmStartError(f"{where}: expected an est.VocabInfo, got {info!r}.")
    if not (info.new_vocab and info.new_vocab_size and info.old_vocab):
        raise WarmStartError(
            "Invalid args: Must provide all of [current_vocab_path, current_vocab_size, prev_ckpt, "
            f"prev_vocab_path}}. {where}: new_vocab={info.new_vocab!r}, "
            f"new_vocab_size={info.new_vocab_size!r}, old_vocab={info.old_vocab!r}."
        )
    if info.num_oov_buckets < 0:
        raise WarmStartError(
            f"{where}: num_oov_buckets must be >= 0, but received {info.num_oov_buckets}."
        )
    if info.backup_initializer is not None and not callable(info.backup_initializer):
        raise WarmStartError(
            f"{where}: initializer must be callable, instead of being {info.backup_initializer!r} "
            f"of type {type(info.backup_initializer)}. Give, for instance, "
            "tf.compat.v1.zeros_initializer()."
        )


# ------------------------------------------------------------------ which row was which


class Vocabularies:
    """The matching of vocabulary files, each pair of which is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, int], np.ndarray] = {}

    def old_indices(self, name: str, info: VocabInfo, old_size: int) -> np.ndarray:
        """For every new word its index in the old vocabulary, or -1."""
        limit = -1 if info.old_vocab_size is None else info.old_vocab_size
        files = os.fsdecode(info.new_vocab), os.fsdecode(info.old_vocab)
        pair = (*files, info.new_vocab_size, limit)
        if pair not in self._known:
            self._known[pair] = _match(name, *pair)
        indices = self._known[pair]
        if indices.max(initial=-1) >= old_size:
            raise WarmStartError(
                f"The old vocabulary of variable {name}, {files[1]}, has words after line "
                f"{old_size}, but the checkpoint holds only {old_size} entries along axis "
                f"{info.axis}. Give the vocabulary it was trained with, or VocabInfo("
                f"old_vocab_size={old_size})."
            )
        return indices


def _match(name: str, new: str, old: str, new_size: int, old_size: int) -> np.ndarray:
    try:
        with tf.device("/CPU:0"):
            return tf.raw_ops.GenerateVocabRemapping(
                new_vocab_file=new,
                old_vocab_file=old,
                new_vocab_offset=0,
                num_new_vocab=new_size,
                old_vocab_size=old_size,
            ).remapping.numpy()
    except (tf.errors.OpError, ValueError) as error:
        problem = _shorter_file(new, new_size, "new") or _shorter_file(old, old_size, "old")
        reason = problem or str(getattr(error, "message", error)).rpartition("}} ")[2]
        raise WarmStartError(
            f"Cannot match the vocabularies of variable {name} (new: {new}, old: {old}): "
            f"{reason.removesuffix(' [Op:GenerateVocabRemapping]')}. A vocabulary is a text file "
            "with one word per line, without empty or repeated lines."
        ) from error


def _shorter_file(path: str, size: int, which: str) -> str | None:
    try:
        with open(path, "rb") as file:
            lines = sum(1 for _ in file)
    except OSError as error:
        return f"the {which} vocabulary cannot be read: {error}"
    if lines >= size:
        return None
    return f"{which}_vocab_size is {size}, but {path} has only {lines} lines"


# ------------------------------------------------------------------ the values


def remap(part: Part, info: VocabInfo, old: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The value of `part`, given the whole old tensor and the old index of every new word."""
    axis, rank = info.axis, len(part.full_shape)
    start, size = part.offsets[axis], part.shape[axis]
    words = min(max(info.new_vocab_size - start, 0), size)
    # Partitioned along another axis: only that part of the old tensor is needed.
    mine = [slice(o, o + s) for o, s in zip(part.offsets, part.shape, strict=True)]
    mine[axis] = slice(None)
    indices = indices[start : start + words]
    value = np.take(old[tuple(mine)], np.maximum(indices, 0), axis=axis)
    new_words = (slice(None),) * axis + (indices < 0,) + (slice(None),) * (rank - axis - 1)
    cells = value[new_words]
    if cells.size:
        # All new cells as one column, then the buckets: the shapes in which upstream asks.
        drawn = _draw(part, info.backup_initializer, (cells.size, 1), value.dtype)
        value[new_words] = drawn.reshape(cells.shape)
    if words < size:
        buckets = (*part.shape[:axis], size - words, *part.shape[axis + 1 :])
        drawn = _draw(part, info.backup_initializer, buckets, value.dtype)
        value = np.concatenate([value, drawn], axis=axis)
    return value


def _draw(
    part: Part, initializer: Callable[..., Any] | None, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    if initializer is None:
        return np.zeros(shape, dtype)
    if isinstance(initializer, type):  # as for get_variable, the class stands for its default
        initializer = initializer()
    drawn = np.asarray(tf.convert_to_tensor(initializer(list(shape))))
    if drawn.shape != shape:
        raise WarmStartError(
            f"The backup_initializer of variable {part.full_name} returned the shape "
            f"{drawn.shape} when asked for {shape}. It must accept any shape."
        )
    return drawn.astype(dtype)
