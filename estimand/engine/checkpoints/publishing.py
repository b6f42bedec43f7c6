"""How the files of a checkpoint appear and disappear: in an order that is readable throughout.

Appearing: everything is complete under temporary names first. Then data is renamed, and the
`.index`, which makes it a checkpoint, last. Disappearing: the `.index` goes first.

Replacing a checkpoint by another one of the same name cannot be two renames: between them the
old index would describe the new data. But an index also says of how many data files it is, and
their names contain that number. So the new contents are shown in a form with another number
first (`.data-00000-of-00002`), which stands beside the old; one rename of the `.index` switches
over; then the same is done once more towards the usual number. Each moment in between shows the
old checkpoint or the new one, and no data is written twice: the two forms share it as hard links.
"""

from __future__ import annotations

import contextlib
import filecmp
import logging
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from estimand.core.files.atomic_files import (
    age,
    is_left_over,
    parse_temporary,
    remove_quietly,
    sync_directory,
    sync_file,
)
from estimand.core.tf_private import eager_mode
from estimand.engine.checkpoints.files import (
    GRAPH_SUFFIX,
    INPUT_FOLDER,
    INPUT_SUFFIX,
    META_SUFFIX,
    STATE_FILE,
    companion_places,
    data_shards,
    file_sizes,
    read_state,
    visible_problem,
)

_PADDING = "_estimand/padding_{}"
_HOUR = 3600.0

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class Entry:
    """One tensor to be saved, under the name `tf.compat.v1.train.Saver` would give it.

    `slice_spec` is for a part of a partitioned variable: the whole's shape, then start and
    length per dimension, as in "10 4 0,5:0,4".
    """

    name: str
    tensor: tf.Tensor
    slice_spec: str = ""


# ------------------------------------------------------------------ appearing


def write_bundle(prefix: str, entries: Sequence[Entry]) -> None:
    """Write the `.index` and data file of `prefix`, down to the disk."""
    # Data is laid out in the order given; sorted, equal contents make equal files.
    entries = sorted(entries, key=lambda entry: (entry.name, entry.slice_spec))
    with eager_mode(), tf.device("/CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=[entry.name for entry in entries],
            shape_and_slices=[entry.slice_spec for entry in entries],
            tensors=[entry.tensor for entry in entries],
        )
    sync_bundle(prefix)


def join_bundles(prefix: str, entries: Sequence[Entry], others: Sequence[str]) -> None:
    """Make one bundle of `entries` and the bundles `others`, whose files become files of it."""
    bundles = list(others)
    if entries:
        bundles.append(f"{prefix}-own")
        write_bundle(bundles[-1], entries)
    with eager_mode(), tf.device("/CPU:0"):
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=bundles, destination_prefix=prefix, delete_old_dirs=False
        )
    sync_bundle(prefix)


def sync_bundle(prefix: str) -> None:
    for path in (*_data_files(prefix), prefix + ".index"):
        sync_file(path)


def publish_bundle(temporary: str, prefix: str) -> None:
    """Give the files of `temporary` the name `prefix`, which may be taken: see the module."""
    shards = len(_data_files(temporary))
    if not os.path.exists(prefix + ".index"):
        _show(temporary, prefix)
    elif _same_contents(temporary, prefix):
        discard_bundle(temporary)
    else:
        bridge = _other_form(temporary, prefix)
        _show(bridge, prefix)
        _show(temporary, prefix)
    _remove_other_forms(prefix, shards)


def _show(temporary: str, prefix: str) -> None:
    for path in _data_files(temporary):
        os.replace(path, prefix + path.removeprefix(temporary))
    # A power failure must not find the renames done in another order.
    sync_directory(os.path.dirname(prefix))
    os.replace(temporary + ".index", prefix + ".index")
    sync_directory(os.path.dirname(prefix))


def discard_bundle(prefix: str) -> None:
    for path in (prefix + ".index", *_data_files(prefix)):
        remove_quietly(path)


def remove_bundle(prefix: str) -> None:
    """Remove a published bundle; without its `.index` it is gone for every reader."""
    for path in (prefix + ".index", *_data_files(prefix)):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _data_files(prefix: str) -> list[str]:
    directory, base = os.path.split(prefix)
    # Only names: asking for the size of every file in the directory takes longer than a save.
    try:
        names = [name for name in os.listdir(directory or ".") if name.startswith(base)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    shards = data_shards(dict.fromkeys(names, 0), base)
    return [os.path.join(directory, name) for names in shards.values() for name in names]


def _same_contents(temporary: str, prefix: str) -> bool:
    paths = [*_data_files(temporary), temporary + ".index"]
    try:
        return all(
            filecmp.cmp(path, prefix + path.removeprefix(temporary), shallow=False)
            for path in paths
        )
    except OSError:
        return False


def _other_form(temporary: str, prefix: str) -> str:
    """The contents of `temporary`, in a number of data files that `prefix` has no file of."""
    directory, base = os.path.split(prefix)
    taken = data_shards(file_sizes(directory or "."), base)
    own = len(_data_files(temporary))
    total = own + 1
    while total in taken:
        total += 1
    copy = temporary + "-copy"
    for path in (*_data_files(temporary), temporary + ".index"):
        _link(path, copy + path.removeprefix(temporary))
    parts = [copy]
    for number in range(total - own):
        parts.append(f"{temporary}-padding{number}")
        write_bundle(parts[-1], [Entry(_PADDING.format(number), tf.constant(0, tf.int8))])
    bridge = temporary + "-bridge"
    with eager_mode(), tf.device("/CPU:0"):
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=parts, destination_prefix=bridge, delete_old_dirs=False
        )
    sync_bundle(bridge)
    return bridge


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _remove_other_forms(prefix: str, shards: int) -> None:
    for path in _data_files(prefix):
        if not path.endswith(f"-of-{shards:05d}"):
            remove_quietly(path)


# ------------------------------------------------------------------ disappearing


def delete_checkpoint(prefix: str) -> None:
    """Remove all files of a checkpoint; files beside it that are not part of one stay."""
    remove_quietly(prefix + ".index")
    for place in companion_places(prefix):
        discard_bundle(place)
    remove_quietly(prefix + GRAPH_SUFFIX)
    remove_quietly(prefix + META_SUFFIX)
    # Last: by it the rest is recognized, should we be interrupted here.
    for path in _data_files(prefix):
        remove_quietly(path)
    if os.path.exists(prefix + ".index"):
        _log.warning("Could not remove the old checkpoint %s; it stays.", prefix)


def discard_temporary(temporary: str) -> None:
    """Remove whatever an unfinished write left under its temporary name."""
    directory, base = os.path.split(temporary)
    for name in file_sizes(directory):
        if name.startswith((base + ".", base + "-")):
            remove_quietly(os.path.join(directory, name))


def clean_leftovers(directory: str, basename: str, exclusive: bool) -> None:
    """Remove what processes that were killed left half done.

    With the directory locked (`exclusive`) that is everything temporary that is not this
    process' own. Else only what can safely be told to be left over: temporary files of
    processes of this host that are no more, and of other hosts after a day; data without an
    `.index` after an hour, in case somebody is just copying it here.
    """
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        path = os.path.join(directory, name)
        temporary = parse_temporary(name)
        if temporary is None or not is_left_over(path, temporary[0], exclusive):
            continue
        if temporary[1] == STATE_FILE and _completes_a_checkpoint(path, directory):
            os.replace(path, os.path.join(directory, STATE_FILE))
        elif os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove_quietly(path)
    _remove_data_without_index(directory, basename, exclusive)


def _completes_a_checkpoint(new_state: str, directory: str) -> bool:
    """Whether the kill came between the last rename of a checkpoint and that of its state file."""
    latest = read_state(directory, new_state).latest
    if latest is None or visible_problem(latest) is not None:
        return False
    state = os.path.join(directory, STATE_FILE)
    return not os.path.exists(state) or age(new_state) <= age(state)


def _remove_data_without_index(directory: str, basename: str, exclusive: bool) -> None:
    base_of = rf"({re.escape(basename)}-\d+)"
    others = "|".join(map(re.escape, (INPUT_SUFFIX + ".", META_SUFFIX)))
    ours = re.compile(rf"{base_of}(?:\.data-\d{{5}}-of-\d{{5}}$|{others})")
    names = file_sizes(directory)
    positions = file_sizes(os.path.join(directory, INPUT_FOLDER))
    matches = [*map(ours.match, names), *map(re.compile(rf"{base_of}\.").match, positions)]
    bases = {match[1] for match in matches if match}
    being_written = {t[1] for t in map(parse_temporary, names) if t is not None}
    for base in bases:
        in_work = any(base in name for name in being_written)
        if f"{base}.index" in names or in_work:
            continue
        files = [os.path.join(directory, n) for n in names if n.startswith(base + ".")]
        files += [
            os.path.join(directory, INPUT_FOLDER, n) for n in positions if n.startswith(base + ".")
        ]
        if exclusive or min(map(age, files)) > _HOUR:
            delete_checkpoint(os.path.join(directory, base))
