"""Reading checkpoints: what fits is read in one go; what does not fit, or is damaged, is named."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from estimand.core.errors import CheckpointError, NoCheckpointError
from estimand.core.tf_private import eager_mode
from estimand.engine.checkpoints.files import examine_checkpoints
from estimand.engine.checkpoints.fitting import Stored, Wanted, check_fit
from estimand.engine.checkpoints.partitioned_slots import parts_of
from estimand.engine.checkpoints.substitutes import FindSource, Source

_log = logging.getLogger("tensorflow")


class CheckpointDamaged(CheckpointError):
    """A file of the checkpoint is cut short, overwritten or missing."""


def read_tensors(
    path: str, wanted: Sequence[Wanted], find: FindSource | None = None
) -> list[tf.Tensor]:
    """The wanted tensors, in that order.

    `find` says where else a tensor may be, if the checkpoint has none of its name and type.

    Raises `CheckpointMismatch` if names, shapes or types do not fit, `CheckpointDamaged` if the
    files cannot be read through (contents are checked against their checksums), and
    `NoCheckpointError` if there is no such checkpoint.

    >>> import tempfile
    >>> from estimand.engine.checkpoints.api import CheckpointWriter, Entry
    >>> with CheckpointWriter(tempfile.mkdtemp()) as writer:
    ...     path = writer.save(1, [Entry("w", tf.constant([1.0, 2.0]))])
    >>> read_tensors(path, [Wanted("w", tf.float32, (2,))])[0].numpy()
    array([1., 2.], dtype=float32)
    """
    values: dict[int, tf.Tensor] = {}
    give_tensors(path, wanted, values.__setitem__, find)
    return [values[number] for number in range(len(wanted))]


def give_tensors(
    path: str,
    wanted: Sequence[Wanted],
    take: Callable[[int, tf.Tensor], Any],
    find: FindSource | None = None,
) -> None:
    """As `read_tensors`, but `take(number, tensor)` is given each of them, and they are not kept.

    Where an error is raised, some may have been given already.
    """
    path = os.fspath(path)
    while True:
        before = _identity(path)
        try:
            stored = _read_index(path)
            sources = _substitutes(wanted, stored, find) if find is not None else {}
            reads = [_reads(w, sources.get(w.name), stored) for w in wanted]
            check_fit(path, [read for of_one in reads for read in of_one], stored)
            for numbers in _together(wanted):
                chosen = [read for n in numbers for read in reads[n]]
                values = _read_values(path, chosen, stored)
                group = [wanted[n] for n in numbers]
                for number, value in zip(numbers, _combined(group, sources, values), strict=True):
                    take(number, value)
            return
        except CheckpointDamaged:
            after = _identity(path)
            if after is None:
                raise NoCheckpointError(
                    f"Checkpoint {path} was removed while it was being read."
                ) from None
            if after == before:
                raise
            # It was replaced while it was being read: read the new one.


def _together(wanted: Sequence[Wanted]) -> list[list[int]]:
    """Which are read at the same time: all that have no place of their own."""
    here = [number for number, entry in enumerate(wanted) if not entry.device]
    return [*([here] if here else []), *([n] for n, entry in enumerate(wanted) if entry.device)]


def restore_newest_intact(
    directory: str | os.PathLike[str], wanted: Sequence[Wanted], find: FindSource | None = None
) -> tuple[str, list[tf.Tensor]]:
    """The newest checkpoint of a directory that can be read, and its tensors: `give_newest`."""
    values: dict[int, tf.Tensor] = {}
    path = give_newest_intact(directory, wanted, values.__setitem__, find)
    return path, [values[number] for number in range(len(wanted))]


def give_newest_intact(
    directory: str | os.PathLike[str],
    wanted: Sequence[Wanted],
    take: Callable[[int, tf.Tensor], Any],
    find: FindSource | None = None,
) -> str:
    """Give the tensors of the newest checkpoint of a directory that can be read; which it is.

    Damaged ones are passed over, with one warning. One that does not fit the model is not
    damaged: `CheckpointMismatch` is raised at once, as an older one would fit no better.
    """
    passed_over: dict[str, str] = {}
    removed: set[str] = set()
    # Looked up afresh each time: a training may be going on there, and remove what we found.
    while candidate := _newest_other_than(directory, {*passed_over, *removed}):
        path, problem = candidate
        try:
            if problem is not None:
                raise CheckpointDamaged(problem)
            give_tensors(path, wanted, take, find)
        except CheckpointDamaged as error:
            passed_over[path] = str(error)
        except NoCheckpointError:
            removed.add(path)
        else:
            _warn_of(passed_over, path)
            return path
    if not passed_over:
        raise NoCheckpointError(f"Could not find trained model in model_dir: {directory}.")
    raise CheckpointDamaged(
        f"None of the checkpoints in {directory} can be read:\n" + _list_of(passed_over)
    )


def _newest_other_than(
    directory: str | os.PathLike[str], tried: set[str]
) -> tuple[str, str | None] | None:
    return next(
        (candidate for candidate in examine_checkpoints(directory) if candidate[0] not in tried),
        None,
    )


def warn_of_unusable(directory: str | os.PathLike[str], used: str | None) -> None:
    """Say which checkpoints newer than the one used have files missing or visibly broken."""
    passed_over: dict[str, str] = {}
    for path, problem in examine_checkpoints(directory):
        if path == used:
            break
        if problem is not None:
            passed_over[path] = problem
    if used is not None:
        _warn_of(passed_over, used)
    elif passed_over:
        _log.warning(
            "No checkpoint in %s can be used, so the model starts from its initial values:\n%s",
            directory,
            _list_of(passed_over),
        )


def _warn_of(passed_over: dict[str, str], used: str) -> None:
    if passed_over:
        _log.warning(
            "Restoring from %s, because newer checkpoints cannot be read:\n%s",
            used,
            _list_of(passed_over),
        )


def _list_of(problems: dict[str, str]) -> str:
    return "\n".join(f"  {os.path.basename(path)}: {why}" for path, why in problems.items())


# ------------------------------------------------------------------ the files


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        index = os.stat(path + ".index")
    except OSError:
        return None
    return index.st_ino, index.st_mtime_ns, index.st_size


def _read_index(path: str) -> Stored:
    if not os.path.exists(path + ".index"):
        raise NoCheckpointError(
            f"There is no checkpoint {path}: {path}.index does not exist. Give the path without "
            "the ending, as in '.../model.ckpt-1200'."
        )
    try:
        reader: Any = tf.train.load_checkpoint(path)
        return Stored(reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map())
    except tf.errors.PermissionDeniedError as error:
        raise CheckpointError(f"{path}.index may not be read: {error.message}.") from error
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise CheckpointDamaged(f"{path}.index is damaged: {_reason(error)}") from error


def _read_values(path: str, wanted: Sequence[Wanted], stored: Stored) -> list[tf.Tensor]:
    parts = [_parts(entry, stored) for entry in wanted]
    values = iter(_restored(path, [part for of_one in parts for part in of_one]))
    result = []
    for of_one in parts:
        read = [next(values) for _ in of_one]
        with eager_mode():
            result.append(read[0] if len(read) == 1 else tf.concat(read, 0))
    return result


def _parts(entry: Wanted, stored: Stored) -> list[Wanted]:
    if entry.slice_spec:
        return [entry]
    parts = parts_of(entry.name, stored.shapes)
    return [replace(entry, name=key, shape=None, slice_spec=of) for key, of in parts] or [entry]


def _restored(path: str, wanted: Sequence[Wanted]) -> list[tf.Tensor]:
    if not wanted:
        return []
    try:
        with eager_mode(), tf.device(wanted[0].device or "/CPU:0"):
            return list(
                tf.raw_ops.RestoreV2(
                    prefix=path,
                    tensor_names=[entry.name for entry in wanted],
                    shape_and_slices=[entry.slice_spec for entry in wanted],
                    dtypes=[entry.dtype for entry in wanted],
                )
            )
    except tf.errors.PermissionDeniedError as error:
        raise CheckpointError(f"{path}.data-* may not be read: {error.message}.") from error
    except tf.errors.ResourceExhaustedError:
        raise  # out of memory: says nothing about the file
    except tf.errors.OpError as error:
        raise CheckpointDamaged(f"{path}.data-* is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = str(getattr(error, "message", None) or error)
    return text.rpartition("}} ")[2].removesuffix(" [Op:RestoreV2]")


# ------------------------------------------------------------------ under other names


def _substitutes(wanted: Sequence[Wanted], stored: Stored, find: FindSource) -> dict[str, Source]:
    # Under its name, but of another type: it may be one that can be taken all the same.
    unfit = [w.name for w in wanted if stored.dtypes.get(w.name) != tf.as_dtype(w.dtype)]
    substitutes = {name: find(name, stored.shapes.keys()) for name in unfit}
    return {name: source for name, source in substitutes.items() if source is not None}


def _reads(entry: Wanted, source: Source | None, stored: Stored) -> list[Wanted]:
    """What has to be read for one wanted tensor."""
    if source is None:
        return [entry]
    if source.value is None:
        return [replace(entry, name=name) for name in source.names]
    return [
        replace(entry, name=n, dtype=stored.dtypes[n], shape=None, slice_spec="")
        for n in source.names
    ]


def _combined(
    wanted: Sequence[Wanted], sources: dict[str, Source], values: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    remaining = iter(values)
    result = []
    for entry in wanted:
        source = sources.get(entry.name)
        if source is None:
            result.append(next(remaining))
            continue
        value = source.compute([next(remaining) for _ in source.names])
        with eager_mode():
            value = tf.cast(value, entry.dtype)
            known = entry.shape is not None and None not in entry.shape
            result.append(tf.broadcast_to(value, entry.shape) if known else value)
    return result
