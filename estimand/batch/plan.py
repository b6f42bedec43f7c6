"""What a job is to do, written down before it begins: so the next start goes on with the same.

    output/predictions-00000-of-00004.parquet     the answers of a shard, whole
    output/_errors/errors-00002-of-00004.jsonl    its rows that got none, where there are any
    output/_job/plan.json                         the model, the files and the shards
    output/_job/done-00000.json                   a shard is finished: how many rows it has
    output/_SUCCESS                               all are

Programs that read a folder of files leave out names that begin with `_` or `.`.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from estimand.batch import files
from estimand.batch.writing import ENDINGS
from estimand.core.errors import InputError, NoModelError
from estimand.core.names import did_you_mean
from estimand.export import reading
from estimand.export.holding import model_file
from estimand.export.row_files import format_of, is_remote, parquet_file
from estimand.inputs.files import Paths, find_files

_PLAN = os.path.join("_job", "plan.json")
_WHERE = "predict"
_READERS = 16  # files whose sizes are asked for at the same time


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is asked for, and decides what the files of a job hold."""

    signature: str | None = None
    keep: tuple[str, ...] = ()
    input_format: str | None = None
    format: str | None = None
    shard_rows: int = 2**18


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file, or of a Parquet file the rows from `begin` to `end`."""

    path: str
    format: str
    begin: int
    end: int | None


@dataclasses.dataclass(frozen=True)
class Job:
    """A plan, where it is carried out, and with which version of the model."""

    output: str
    export: str
    settings: Settings
    model: str  # what its files are, wherever they are
    inputs: tuple[tuple[str, int, int], ...]  # path, size, time
    shards: tuple[Shard, ...]
    batch_size: int = 1024

    @property
    def format(self) -> str:
        return self.settings.format or self.shards[0].format

    def path_of(self, what: str, number: int, ending: str) -> str:
        name = f"{what}-{number:05d}-of-{len(self.shards):05d}{ending}"
        return os.path.join(self.output, name)

    def predictions(self, number: int) -> str:
        return self.path_of("predictions", number, ENDINGS[self.format])

    def errors(self, number: int) -> str:
        return self.path_of(os.path.join("_errors", "errors"), number, ".jsonl")

    def mark(self, number: int) -> str:
        return os.path.join(self.output, "_job", f"done-{number:05d}.json")

    @property
    def success(self) -> str:
        return os.path.join(self.output, "_SUCCESS")

    def finished(self) -> dict[int, dict[str, int]]:
        """What is known of shards that are done."""
        there = set(files.names_in(os.path.join(self.output, "_job")))
        numbers = [n for n in range(len(self.shards)) if os.path.basename(self.mark(n)) in there]
        texts = {number: files.read_text(self.mark(number)) for number in numbers}
        return {number: json.loads(text) for number, text in texts.items() if text}


def make_job(
    export: str | os.PathLike[str],
    paths: Paths,
    output: str | os.PathLike[str],
    settings: Settings,
    batch_size: int,
) -> Job:
    """The job in `output`, which is begun there if it has not been."""
    folder = os.fspath(output)
    folder = folder if is_remote(folder) else os.path.abspath(folder)
    found = [p if is_remote(p) else os.path.abspath(p) for p in find_files(_WHERE, paths)]
    with ThreadPoolExecutor(_READERS) as pool:
        inputs = tuple(pool.map(_identity, found))
        shards = [s for of_file in pool.map(lambda p: _shards(p, settings), found) for s in of_file]
    known = _known(folder)
    version = _version(os.fspath(export), known)
    _check_names(version, settings)
    job = Job(folder, version, settings, fingerprint(version), inputs, tuple(shards), batch_size)
    if known is None:
        _begin(job)
    elif changed := _changes(known, _described(job)):
        raise InputError(
            f"{folder} was begun with {changed}. Give another --output, or what was given then."
        )
    return job


def _identity(path: str) -> tuple[str, int, int]:
    found = tf.io.gfile.stat(path)
    return path, int(found.length), int(found.mtime_nsec)


def _shards(path: str, settings: Settings) -> list[Shard]:
    file_format = format_of(path, settings.input_format)
    if file_format != "parquet":
        return [Shard(path, file_format, 0, None)]
    with parquet_file(path) as file:
        rows = file.metadata.num_rows
    begins = range(0, max(rows, 1), settings.shard_rows)
    return [Shard(path, file_format, b, min(b + settings.shard_rows, rows)) for b in begins]


# ------------------------------------------------------------------ the model


def _version(export: str, known: dict[str, Any] | None) -> str:
    """The newest version; of a job that goes on, the one that it was begun with."""
    newest = reading.find_version(export)
    if known is None:
        return newest
    others = glob.glob(os.path.join(glob.escape(export), "[0-9]*"))
    for version in [newest, *(path for path in others if model_file(path))]:
        if fingerprint(version) == known["model"]:
            return version
    raise NoModelError(
        f"The job was begun with {known['export']}, which is no longer in {export!r}. Give the "
        "directory that has it, or begin anew with another --output."
    )


def fingerprint(export: str) -> str:
    """Of the graph and the files it reads; the index has a checksum of each variable."""
    base = glob.escape(export)
    found = [
        *glob.glob(os.path.join(base, "variables", "variables.index")),
        *glob.glob(os.path.join(base, "assets", "**"), recursive=True),
    ]
    digest = hashlib.sha256()
    for path in [str(model_file(export)), *sorted(filter(os.path.isfile, found))]:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _check_names(export: str, settings: Settings) -> None:
    """What would go wrong in every shard."""
    signatures = {n: s for g in reading.read_meta_graphs(export) for n, s in g.signatures.items()}
    if settings.signature not in (None, *signatures):
        raise InputError(
            f"There is no signature {settings.signature!r} in {export}. There are: "
            f"{', '.join(sorted(signatures))}.{did_you_mean(str(settings.signature), signatures)}"
        )
    called = settings.signature or "serving_default"
    outputs = signatures.get(called, {}).get("outputs", {})
    twice = sorted(set(settings.keep) & set(outputs))
    if twice:
        raise InputError(
            f"The column {twice[0]!r} cannot be kept: an output of the model has that name."
        )


# ------------------------------------------------------------------ the file


def _known(folder: str) -> dict[str, Any] | None:
    text = files.read_text(os.path.join(folder, _PLAN))
    if text is not None:
        return json.loads(text)
    others = [name for name in files.names_in(folder) if name[0] not in "._"]
    if others:
        raise InputError(
            f"{folder} is not empty, and no job was begun there: it has {others[0]!r}. Give a "
            "directory of its own."
        )
    return None


def _begin(job: Job) -> None:
    for name in ("_job", "_errors"):
        tf.io.gfile.makedirs(os.path.join(job.output, name))
    places = {path: i for i, (path, *_) in enumerate(job.inputs)}
    shards = [(places[shard.path], shard.begin, shard.end) for shard in job.shards]
    text = json.dumps({**_described(job), "export": job.export, "shards": shards})
    files.write_text(os.path.join(job.output, _PLAN), text)


def _described(job: Job) -> dict[str, Any]:
    kept = {"settings": dataclasses.asdict(job.settings), "model": job.model, "inputs": job.inputs}
    return json.loads(json.dumps(kept))


def _changes(known: dict[str, Any], asked: dict[str, Any]) -> str | None:
    """What a job was begun with that is not what is asked for now."""
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


def load_job(output: str, export: str, batch_size: int) -> Job:
    """The job that was begun there, for a process that works on it."""
    known = _known(output)
    assert known is not None, f"no job was begun in {output}"
    settings = Settings(**{**known["settings"], "keep": tuple(known["settings"]["keep"])})
    inputs = tuple((path, size, time) for path, size, time in known["inputs"])
    shards = [
        Shard(inputs[i][0], format_of(inputs[i][0], settings.input_format), begin, end)
        for i, begin, end in known["shards"]
    ]
    return Job(output, export, settings, known["model"], inputs, tuple(shards), batch_size)
