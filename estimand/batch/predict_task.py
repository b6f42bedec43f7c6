"""What `predict` makes of a shard: the answers of one version of a model to its rows."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
from typing import Any

from estimand.batch.answering import Answering
from estimand.batch.chunks import Chunk
from estimand.batch.plan import ROWS_PER_SHARD
from estimand.batch.writing import ENDINGS, AnswerWriter, open_writer
from estimand.core.errors import InputError, NoModelError
from estimand.core.names import did_you_mean
from estimand.export.loaded import reading
from estimand.export.loaded.holding import model_file


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is asked for, and decides what the files of a job hold."""

    signature: str | None = None
    keep: tuple[str, ...] = ()
    input_format: str | None = None
    format: str | None = None
    shard_rows: int = ROWS_PER_SHARD


@dataclasses.dataclass(frozen=True)
class PredictTask:
    """With which version, and how many rows at a time."""

    settings: Settings
    export: str
    model: str  # what its files are, wherever they are
    batch_size: int = 1024

    called = "predict"
    makes = "predictions"

    @classmethod
    def chosen(
        cls, export: str, settings: Settings, batch_size: int, known: dict[str, Any] | None
    ) -> PredictTask:
        """With the newest version; of a job that goes on, the one that it was begun with."""
        version = _version(export, known)
        _check_names(version, settings)
        return cls(settings, version, fingerprint(version), batch_size)

    @classmethod
    def of_plan(cls, known: dict[str, Any], told: dict[str, Any]) -> PredictTask:
        settings = Settings(**{**known["settings"], "keep": tuple(known["settings"]["keep"])})
        return cls(settings, told["export"], known["model"], told["batch_size"])

    def ending(self, of_input: str) -> str:
        return ENDINGS[self.settings.format or of_input]

    def described(self) -> dict[str, Any]:
        return {"settings": dataclasses.asdict(self.settings), "model": self.model}

    def for_workers(self) -> dict[str, Any]:
        return {"export": self.export, "batch_size": self.batch_size}

    def work(self, format_of_input: str) -> PredictWork:
        return PredictWork(self, format_of_input)


class PredictWork:
    """A task with its model loaded."""

    def __init__(self, task: PredictTask, format_of_input: str) -> None:
        from estimand.export.loaded.loading import load_model

        self.rows_at_once = task.batch_size
        self._format = task.settings.format or format_of_input
        self._keep = task.settings.keep
        self._answering = Answering(load_model(task.export), task.settings.signature, self._keep)
        self.check_names = self._answering.check_names

    def open(self, path: str) -> AnswerWriter:
        self._writer = open_writer(path, self._format, self._answering.outputs, self._keep)
        return self._writer

    def encode(self, chunk: Chunk) -> Any:
        return self._writer.encode(self._answering.asked(chunk))

    def notes(self) -> dict[str, Any]:
        return {}


def _version(export: str, known: dict[str, Any] | None) -> str:
    newest = reading.find_version(export)
    if known is None or "model" not in known:
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
    beside_the_graph = [
        *glob.glob(os.path.join(base, "variables", "variables.index")),
        *glob.glob(os.path.join(base, "assets", "**"), recursive=True),
    ]
    digest = hashlib.sha256()
    for path in [str(model_file(export)), *sorted(filter(os.path.isfile, beside_the_graph))]:
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
