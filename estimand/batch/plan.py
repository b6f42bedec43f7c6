"""What a job is to do, written down before it begins: so the next start goes on with the same.

    output/predictions-00000-of-00004.parquet     what was made of a shard, whole
    output/_errors/errors-00002-of-00004.jsonl    its rows that nothing could be made of, if any
    output/_job/plan.json                         the task, the files and the shards
    output/_job/done-00000.json                   a shard is finished: how many rows it has
    output/_SUCCESS                               all are

Programs that read a folder of files leave out names that begin with `_` or `.`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from estimand.batch import files
from estimand.batch.chunks import IMAGES, Chunk
from estimand.core.errors import InputError
from estimand.export.loaded.row_files import format_of, is_remote, parquet_file
from estimand.inputs.files import Paths, find_files
from estimand.inputs.records import image_folders

_PLAN = os.path.join("_job", "plan.json")
ROWS_PER_SHARD = 2**18
_IMAGES_PER_SHARD = 2**10
_READERS = 16  # files that are looked at at the same time
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file, or of a Parquet file or a folder of images the rows from `begin` to `end`."""

    path: str
    format: str
    begin: int
    end: int | None


class Writer(Protocol):
    """A file being written."""

    def write(self, encoded: Any) -> None: ...

    def close(self) -> None: ...


class Work(Protocol):
    """Makes a file of a shard. What can fail for a single row happens in `encode`."""

    @property
    def rows_at_once(self) -> int: ...

    def open(self, path: str) -> Writer:
        """A new file, for what `encode` gives from now on."""

    def check_names(self, chunk: Chunk, where: str) -> None:
        """InputError for names that cannot be right: that is no matter of single rows."""

    def encode(self, chunk: Chunk) -> Any:
        """What is written for these rows; ValueError, TypeError if that cannot be."""

    def notes(self) -> dict[str, Any]:
        """What else there is to be known of the file, beside the number of its rows."""


class Task(Protocol):
    """What is done with every shard."""

    @property
    def called(self) -> str:
        """The function that was called, which messages name."""

    @property
    def makes(self) -> str:
        """How the names of its files begin."""

    def ending(self, of_input: str) -> str:
        """How they end, if the input is of this format."""

    def described(self) -> dict[str, Any]:
        """All that decides what its files hold. `settings` are what a user has given."""

    def for_workers(self) -> dict[str, Any]:
        """What a process has to be told that works on it, beside the plan."""

    def work(self, format_of_input: str) -> Work:
        """In such a process: all that has to be loaded is loaded."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A plan, and where it is carried out."""

    output: str
    task: Task
    inputs: tuple[tuple[str, int, int], ...]  # path, size, time
    shards: tuple[Shard, ...]

    def path_of(self, what: str, number: int, ending: str) -> str:
        name = f"{what}-{number:05d}-of-{len(self.shards):05d}{ending}"
        return os.path.join(self.output, name)

    def file(self, number: int) -> str:
        return self.path_of(self.task.makes, number, self.task.ending(self.shards[0].format))

    def errors(self, number: int) -> str:
        return self.path_of(os.path.join("_errors", "errors"), number, ".jsonl")

    def mark(self, number: int) -> str:
        return os.path.join(self.output, "_job", f"done-{number:05d}.json")

    def _names_in(self, folder: str) -> list[str]:
        whole = os.path.join(self.output, folder) if folder else self.output
        return [os.path.join(whole, name) for name in files.names_in(whole)]

    @functools.cached_property
    def _planned_with(self) -> frozenset[tuple[str, int, int]]:
        return frozenset(self.inputs)

    def check_unchanged(self, number: int) -> None:
        """InputError if the file of a shard is not the one that was planned with."""
        path = self.shards[number].path
        if self.shards[number].format != IMAGES and _identity(path) not in self._planned_with:
            raise InputError(
                f"{path} has changed since the job was begun. Begin anew, in another directory."
            )

    @property
    def success(self) -> str:
        return os.path.join(self.output, "_SUCCESS")

    def finished(self) -> dict[int, dict[str, Any]]:
        """What is known of shards that are done."""
        there = {name for folder in ("_job", "") for name in self._names_in(folder)}
        numbers = [
            number
            for number in range(len(self.shards))
            if {self.mark(number), self.file(number)} <= there  # neither was taken away
        ]
        marks = {number: _parsed(files.read_text(self.mark(number))) for number in numbers}
        return {number: mark for number, mark in marks.items() if mark is not None}


def folder_of(output: str | os.PathLike[str]) -> str:
    folder = os.fspath(output)
    return folder if is_remote(folder) else os.path.abspath(folder)


def files_of(called: str, paths: Paths, output: str, *, folders: bool = False) -> list[str]:
    """The files that paths and patterns stand for; where `folders` will do, one of images.

    What a job has written is no input of it, though a pattern may find it when it goes on.
    """
    if folders and isinstance(paths, (str, os.PathLike)) and os.path.isdir(paths):
        folder = os.path.abspath(paths)
        if _is_within(output, folder):  # it would be one of the classes
            raise InputError(
                f"{called}: the output {output} lies in the folder of images {folder}, where every "
                "folder is a class. Give a directory elsewhere."
            )
        return [folder]
    readable = [p if is_remote(p) else os.path.abspath(p) for p in find_files(called, paths)]
    files = [path for path in readable if not _is_within(path, output)]
    if not files:
        raise InputError(f"{called}: all that was found to read lies in the output, {output}.")
    return files


def _is_within(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def cut(paths: Iterable[str], input_format: str | None, shard_rows: int | None) -> list[Shard]:
    """Files, and parts of files of so many rows; None: of as many as are worth a process."""

    def cut_one(path: str) -> list[Shard]:
        return _shards(path, input_format, shard_rows)

    return [shard for of_file in for_each(cut_one, paths) for shard in of_file]


def for_each(look: Callable[[_Given], _Found], things: Iterable[_Given]) -> list[_Found]:
    """Of many files at the same time, which may be far away."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(look, things))


def begin_or_go_on(
    output: str, paths: list[str], shards: list[Shard], known: dict[str, Any] | None, task: Task
) -> Job:
    """The job in `output`, of which this is known; it is begun there if it has not been."""
    job = Job(output, task, tuple(for_each(_identity, paths)), tuple(shards))
    if known is None:
        _begin(job)
        known = known_of(output)  # another command may have begun there at the same moment
    if known is not None and (changed := _changes(known, _described(job))):
        raise InputError(
            f"{output} was begun with {changed}. Give another directory, or what was given then."
        )
    return job


def _identity(path: str) -> tuple[str, int, int]:
    if os.path.isdir(path):
        return (path, *image_folders.identity(path))
    status = tf.io.gfile.stat(path)
    return path, int(status.length), int(status.mtime_nsec)


def _shards(path: str, input_format: str | None, shard_rows: int | None) -> list[Shard]:
    file_format = _format(path, input_format)
    if file_format == IMAGES:
        rows = len(image_folders.in_folders(path))
    elif file_format == "parquet":
        with parquet_file(path) as file:
            rows = file.metadata.num_rows
    else:
        return [Shard(path, file_format, 0, None)]
    size = shard_rows or (_IMAGES_PER_SHARD if file_format == IMAGES else ROWS_PER_SHARD)
    begins = range(0, max(rows, 1), size)
    return [Shard(path, file_format, begin, min(begin + size, rows)) for begin in begins]


def _format(path: str, input_format: str | None) -> str:
    return IMAGES if os.path.isdir(path) else format_of(path, input_format)


# ------------------------------------------------------------------ the file


def known_of(folder: str) -> dict[str, Any] | None:
    """The plan of the job that was begun there, if one was."""
    path = os.path.join(folder, _PLAN)
    try:
        text = files.read_text(path)
    except tf.errors.OpError as error:
        raise _unusable(folder, error) from error
    if text is not None:
        known = _parsed(text)
        if known is None:
            raise InputError(f"{path} is damaged. Begin anew, in another directory.")
        return known
    others = [name for name in files.names_in(folder) if name[0] not in "._"]
    if others:
        raise InputError(
            f"{folder} is not empty, and no job was begun there: it has {others[0]!r}. Give a "
            "directory of its own."
        )
    return None


def _parsed(text: str | None) -> dict[str, Any] | None:
    """None if it is not whole: a disk may have been full, or somebody may have written there."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _unusable(folder: str, error: tf.errors.OpError) -> InputError:
    return InputError(
        f"{folder} cannot be the directory of the output: {error.message}. Give another one, or "
        "make room for it."
    )


def _begin(job: Job) -> None:
    try:
        for name in ("_job", "_errors"):
            tf.io.gfile.makedirs(os.path.join(job.output, name))
    except tf.errors.OpError as error:
        raise _unusable(job.output, error) from error
    places = {path: i for i, (path, *_) in enumerate(job.inputs)}
    shards = [(places[shard.path], shard.begin, shard.end) for shard in job.shards]
    told = job.task.for_workers()
    text = json.dumps({**_described(job), **told, "shards": shards})
    files.write_new_text(os.path.join(job.output, _PLAN), text)


def _described(job: Job) -> dict[str, Any]:
    kept = {"task": job.task.called, **job.task.described(), "inputs": job.inputs}
    return json.loads(json.dumps(kept))


def _changes(known: dict[str, Any], asked: dict[str, Any]) -> str | None:
    """What a job was begun with that is not what is asked for now."""
    begun = known.get("task", "predict")
    if begun != asked["task"]:
        return f"{begun}, and is now given to {asked['task']}"
    then, now = known["settings"], asked["settings"]
    for name, value in then.items():
        if now[name] != value:
            return f"{name} {value!r}, and is now asked for {now[name]!r}"
    before, after = ({path: rest for path, *rest in plan["inputs"]} for plan in (known, asked))
    for path in [*before, *after]:
        if before.get(path) != after.get(path):
            return f"other input: {path} {_what_happened(path, before, after)}"
    return None


def _what_happened(path: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    if path not in before:
        return "was not there, or not given"
    return "has changed since" if path in after else "is no longer there, or not given"


def load_job(output: str, task: Task, known: dict[str, Any]) -> Job:
    """The job that was begun there, for a process that works on it."""
    inputs = tuple((path, size, time) for path, size, time in known["inputs"])
    given = known["settings"]["input_format"]
    parts = [(inputs[place][0], begin, end) for place, begin, end in known["shards"]]
    shards = [Shard(path, _format(path, given), begin, end) for path, begin, end in parts]
    return Job(output, task, inputs, tuple(shards))
