"""The files of checkpoints: their names, which checkpoints there are, the `checkpoint` state file.

A checkpoint at step N is these files, the first two named and laid out as upstream does:

    model.ckpt-N.data-00000-of-00001    the values
    model.ckpt-N.index                  names, shapes, places, checksums: there last, gone first
    model.ckpt-N.run.json               what the run wants to remember about this moment
    model.ckpt-N.meta                   the graph, where somebody wants it as upstream wrote it
    input_position/model.ckpt-N.*       the position of the input, a small checkpoint of its own

The checkpoint exists if and only if its `.index` does. The position lies apart, because programs
take every `.index` in the directory for a checkpoint, and read its step in the name.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from estimand.core.errors import CheckpointError, NoCheckpointError
from estimand.core.files import bundle, messages
from estimand.core.files.atomic_files import replace_text

BASENAME = "model.ckpt"
STATE_FILE = "checkpoint"
INPUT_FOLDER = "input_position"
INPUT_SUFFIX = ".input"  # of temporary names, and of positions in older directories
META_SUFFIX = ".run.json"
GRAPH_SUFFIX = ".meta"
STEP_VARIABLE = "global_step"

_STEP = re.compile(r"-(\d+)$")
_DATA = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5})-of-(?P<shards>\d{5})$")

_log = logging.getLogger("tensorflow")


# ------------------------------------------------------------------ the state file


@dataclass
class State:
    """The `checkpoint` file: the newest checkpoint, and all that are looked after, oldest first."""

    latest: str | None = None
    paths: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    last_preserved: float | None = None


def state_text(directory: str, state: State) -> str:
    """The state file's text, with relative paths, so that a `model_dir` may be moved."""
    proto = messages.new("CheckpointState")
    if state.latest:
        proto.model_checkpoint_path = os.path.relpath(state.latest, directory)
    proto.all_model_checkpoint_paths.extend(os.path.relpath(p, directory) for p in state.paths)
    proto.all_model_checkpoint_timestamps.extend(state.times)
    if state.last_preserved is not None:
        proto.last_preserved_timestamp = state.last_preserved
    return str(proto)


def read_state(directory: str, file: str | None = None) -> State:
    """The state file; a missing or damaged one reads as empty."""
    from google.protobuf import text_format

    path = file or os.path.join(directory, STATE_FILE)
    try:
        with open(path, encoding="utf-8") as stream:
            proto = text_format.Parse(stream.read(), messages.new("CheckpointState"))
    except (OSError, ValueError, text_format.ParseError):
        return State()
    paths = [_resolve(directory, p) for p in proto.all_model_checkpoint_paths]
    times = list(proto.all_model_checkpoint_timestamps)
    return State(
        latest=_resolve(directory, proto.model_checkpoint_path) or None,
        paths=paths,
        times=times if len(times) == len(paths) else [],
        last_preserved=proto.last_preserved_timestamp or None,
    )


def _resolve(directory: str, path: str) -> str:
    """A path of the state file; an absolute one may be from before the directory was moved."""
    if not path or not os.path.isabs(path):
        return path and os.path.join(directory, path)
    beside = os.path.join(directory, os.path.basename(path))
    if os.path.exists(path + ".index") and not os.path.exists(beside + ".index"):
        return path
    return beside


# ------------------------------------------------------------------ which checkpoints there are


_FILE_ENDING = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def without_ending(path: str) -> str:
    """The prefix that a checkpoint's files share, given it or one of them."""
    return _FILE_ENDING.sub("", path)


def saved_model_variables(directory: str) -> str | None:
    """The prefix of a SavedModel's variables; None if the directory is not a SavedModel."""
    for below in ("variables/variables", "variables"):  # it, or its folder of that name
        prefix = os.path.join(directory, *below.split("/"))
        if os.path.exists(f"{prefix}.index"):
            return prefix
    return None


def prefix_at(path: str) -> str | None:
    """The checkpoint that a prefix, one of its files or a SavedModel stands for, if it is there."""
    prefix = without_ending(path)
    return prefix if os.path.exists(f"{prefix}.index") else saved_model_variables(path)


def latest_checkpoint(directory: str | os.PathLike[str]) -> str | None:
    """The newest checkpoint that looks usable, without reading it through.

    That is the one the state file names, so that editing it still rewinds a training; if it is
    gone or visibly broken, or there is no state file, the newest other one.

    >>> import tempfile
    >>> latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    return next((path for path, problem in examine_checkpoints(directory) if not problem), None)


def checkpoint_candidates(directory: str | os.PathLike[str]) -> list[str]:
    """All checkpoints that look usable, in the order in which they are to be tried."""
    return [path for path, problem in examine_checkpoints(directory) if not problem]


def examine_checkpoints(directory: str | os.PathLike[str]) -> Iterator[tuple[str, str | None]]:
    """All checkpoints, with what is visibly wrong with them, in the order to be tried.

    First the state file's newest, then what is older, newest first. What is newer comes last:
    it is there if somebody rewound the training on purpose.
    """
    directory = os.fspath(directory)
    state = read_state(directory)
    prefixes = {p for p in (state.latest, *state.paths) if p} | set(_scan(directory))
    first_step = _step_in_name(state.latest) if state.latest else None

    def rank(path: str) -> tuple[bool, bool, int]:
        step = _step_in_name(path)
        is_newer = first_step is not None and step is not None and step > first_step
        return path != state.latest, is_newer, -1 if step is None else -step

    sizes = {directory: file_sizes(directory)}
    for path in sorted(prefixes, key=rank):
        yield path, visible_problem(path, sizes.get(os.path.dirname(path)))


def _scan(directory: str) -> Iterator[str]:
    pattern = re.compile(re.escape(BASENAME) + r"-\d+\.index$")
    for name in file_sizes(directory):
        if pattern.match(name):
            yield os.path.join(directory, name.removesuffix(".index"))


def visible_problem(prefix: str, sizes: dict[str, int] | None = None) -> str | None:
    """What is wrong with a checkpoint as far as sizes and the index's last bytes tell."""
    directory, base = os.path.split(prefix)
    if sizes is None:
        sizes = file_sizes(directory or ".")
    if f"{base}.index" not in sizes:
        return f"there is no file {prefix}.index"
    if not _has_footer(f"{prefix}.index"):
        return f"{prefix}.index is cut short ({sizes[f'{base}.index']} bytes) or overwritten"
    shards = data_shards(sizes, base)
    complete = [names for count, names in shards.items() if len(names) == count]
    if not complete:
        return f"{prefix}.data-00000-of-00001 is missing"
    if not any(sum(sizes[name] for name in names) for names in complete):
        return f"{os.path.join(directory, complete[0][0])} is empty"
    return None


def file_sizes(directory: str) -> dict[str, int]:
    """Names and sizes of the files in a directory; none if there is no such directory."""
    sizes: dict[str, int] = {}
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        os.scandir(directory) as entries,
    ):
        for entry in entries:
            with contextlib.suppress(OSError):  # removed while we looked
                if entry.is_file():
                    sizes[entry.name] = entry.stat().st_size
    return sizes


def data_shards(names: dict[str, int], base: str) -> dict[int, list[str]]:
    """The data files of one checkpoint, by the number of files they say they are."""
    shards: dict[int, list[str]] = {}
    for name in sorted(names):
        match = _DATA.match(name)
        if match and match["prefix"] == base:
            shards.setdefault(int(match["shards"]), []).append(name)
    return shards


def _has_footer(index: str) -> bool:
    try:
        with open(index, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < bundle.FOOTER_BYTES:
                return False
            file.seek(size - len(bundle.FOOTER_MAGIC))
            return file.read() == bundle.FOOTER_MAGIC
    except OSError:
        return False


def companion_prefix(path: str) -> str | None:
    """The prefix of the input position saved with a checkpoint; None if there is none."""
    there = (p for p in companion_places(path) if visible_problem(p) is None)
    return next(there, None)


def companion_place(path: str) -> str:
    """Where the input position of a checkpoint is written."""
    directory, base = os.path.split(path)
    return os.path.join(directory, INPUT_FOLDER, base)


def companion_places(path: str) -> tuple[str, str]:
    """Where it may be: there, or beside the checkpoint, where it used to be."""
    return companion_place(path), path + INPUT_SUFFIX


def checkpoint_files(path: str) -> list[str]:
    """All files of a checkpoint, the index last: it is there when its index is."""
    prefixes = (path, companion_place(path))
    files = [f for p in prefixes for f in sorted(glob.glob(f"{glob.escape(p)}.*"))]
    return sorted(files, key=(path + ".index").__eq__)


# ------------------------------------------------------------------ what is known about one


def checkpoint_step(path: str | os.PathLike[str]) -> int:
    """The step of a checkpoint, from its name or else from its `global_step`.

    >>> checkpoint_step("/models/iris/model.ckpt-1200")
    1200
    """
    path = os.fspath(path)
    step = _step_in_name(path)
    if step is not None:
        return step
    try:
        return bundle.read(path).integer(STEP_VARIABLE)
    except (CheckpointError, KeyError) as error:
        raise CheckpointError(
            f"Cannot tell the step of checkpoint {path!r}: its name does not end in -N, as in "
            f"'model.ckpt-1200', and no {STEP_VARIABLE!r} can be read from it ({error})."
        ) from error


def _step_in_name(path: str) -> int | None:
    match = _STEP.search(os.path.basename(path))
    return int(match[1]) if match else None


def read_meta(path: str) -> dict[str, Any] | None:
    """What was saved as `meta` with a checkpoint; None if nothing was, or it cannot be read."""
    try:
        with open(path + META_SUFFIX, encoding="utf-8") as file:
            meta = json.load(file)
        if not isinstance(meta, dict):
            raise ValueError(f"expected an object, found {type(meta).__name__}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("Ignoring %s%s, which cannot be read: %s.", path, META_SUFFIX, error)
        return None
    return meta


def mark_meta(path: str, **changes: Any) -> None:
    """Change entries of a checkpoint's `meta`, as a whole or not at all."""
    if not os.path.exists(path + ".index"):
        raise NoCheckpointError(f"Cannot mark {path}: there is no checkpoint of that name.")
    replace_text(path + META_SUFFIX, meta_text({**(read_meta(path) or {}), **changes}))


def meta_text(meta: dict[str, Any]) -> str:
    return json.dumps(meta, indent=1) + "\n"
