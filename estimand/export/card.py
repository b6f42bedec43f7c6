"""The model card: a page about where an exported model comes from, carried inside it.

`assets.extra/model_card.json` is for programs (the best exporter and `estimand show` read it),
`assets.extra/model_card.md` for people.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import datetime
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.core.version import __version__
from estimand.engine.events import event_files, read_events
from estimand.export.loaded import reading
from estimand.export.loaded.example_features import example_features
from estimand.export.saved_model import EXTRA_FOLDER, ModeGraph

_STEP = "global_step"
_noted: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar(
    "noted", default=None
)


@contextlib.contextmanager
def noting(**entries: Any) -> Iterator[None]:
    """Let the cards of what is exported inside have these entries too (metrics, exporter)."""
    token = _noted.set({**(_noted.get() or {}), **entries})
    try:
        yield
    finally:
        _noted.reset(token)


@dataclass
class Notes:
    """What is known about a model while it is being exported."""

    model_fn: str
    model_dir: str
    checkpoint: str
    params: Any
    features: dict[str, Any] = field(default_factory=dict)
    signatures: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Any] = field(default_factory=dict)  # what its tf.Examples hold
    variables: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    step: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model_fn: Any, model_dir: str, params: Any, checkpoint: str) -> Notes:
        function = getattr(model_fn, "func", model_fn)
        name = getattr(function, "__qualname__", type(function).__name__)
        module = getattr(function, "__module__", "")
        return cls(
            f"{module}.{name}", model_dir, checkpoint, copy.deepcopy(params),
            extra=dict(_noted.get() or {}),
        )  # fmt: skip

    def note_features(self, mode: str, receiver: Any) -> None:
        """Names, types and shapes of what the model function was given."""
        described: dict[str, Any] = {}
        for part in ("features", "labels"):
            values = getattr(receiver, part, None)
            if values is not None:
                by_name = values if isinstance(values, Mapping) else {"": values}
                described[part] = {str(k): _describe(v) for k, v in by_name.items()}
        self.features[mode] = described

    def note_values(self, graphs: Sequence[ModeGraph]) -> None:
        """Signatures, and what the checkpoint held."""
        for graph in graphs:
            self.signatures[graph.mode] = {
                name: reading.describe_signature(signature)
                for name, signature in graph.signatures.items()
            }
            if graph.mode == ModeKeys.PREDICT:
                self.examples = example_features(graph.flat.graph.as_graph_def())
        first = graphs[0]
        for (name, (_, variable)), value in zip(
            first.flat.saved.items(), first.values, strict=True
        ):
            self.variables[name] = {"dtype": value.dtype.name, "shape": value.shape.as_list()}
            if variable.trainable:
                self.parameters += int(np.prod(value.shape.as_list(), dtype=np.int64))
            if name == _STEP:
                self.step = int(value)  # type: ignore[arg-type]  # a number is not in slices

    def as_dict(self) -> dict[str, Any]:
        metrics = self.extra.get("metrics")
        if metrics is None and self.step is not None:
            metrics = metrics_at(self.model_dir, self.step)
        return plain(
            {
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "model_fn": self.model_fn,
                "model_dir": os.path.abspath(self.model_dir),
                "checkpoint": os.path.abspath(self.checkpoint),
                "global_step": self.step,
                **self.extra,
                "metrics": metrics or {},
                "params": self.params,
                "features": self.features,
                "examples": self.examples,
                "signatures": self.signatures,
                "trainable_parameters": self.parameters,
                "variables": self.variables,
                "versions": _versions(),
            }
        )


def write(directory: str, notes: Notes) -> None:
    """Add the card to an export that is being written; files of the user's stay as they are."""
    card = notes.as_dict()
    folder = os.path.join(directory, EXTRA_FOLDER)
    os.makedirs(folder, exist_ok=True)
    pages = {
        reading.CARD_FILE: json.dumps(card, indent=1) + "\n",
        "model_card.md": markdown(card),
    }
    for name, text in pages.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def metrics_at(model_dir: str, step: int) -> dict[str, Any]:
    """What evaluations of that step wrote into event files; the last one counts."""
    entries: dict[str, Any] = {}
    try:
        folders = sorted(e.name for e in os.scandir(model_dir) if e.is_dir())
    except OSError:
        return entries
    for folder in folders:
        if folder != "eval" and not folder.startswith("eval_"):
            continue
        for file in event_files(os.path.join(model_dir, folder)):
            for event in read_events(file):
                if event.step == step:
                    prefix = "" if folder == "eval" else f"{folder.removeprefix('eval_')}/"
                    for value in event.summary.value:
                        if value.HasField("simple_value"):
                            entries[prefix + value.tag] = value.simple_value
    return entries


def markdown(card: Mapping[str, Any]) -> str:
    """The card as a page to read."""
    lines = [
        f"# Model of {card['model_fn']}",
        "",
        f"Exported {card['created']} from checkpoint `{card['checkpoint']}`"
        f" after {card['global_step']} training steps;"
        f" {card['trainable_parameters']:,} trainable parameters.",
    ]
    if card["metrics"]:
        lines += ["", "## Metrics", "", "| metric | value |", "| --- | --- |"]
        lines += [f"| {name} | {_short(value)} |" for name, value in card["metrics"].items()]
    for mode, by_name in card["signatures"].items():
        lines += ["", f"## Signatures ({mode})", ""]
        for name, signature in by_name.items():
            lines += [f"### `{name}`", "", f"Method `{signature['method']}`", ""]
            lines += ["| | name | type | shape |", "| --- | --- | --- | --- |"]
            for part in ("inputs", "outputs"):
                for key, info in signature[part].items():
                    lines.append(f"| {part[:-1]} | {key} | {info['dtype']} | {info['shape']} |")
            lines.append("")
    if card["params"]:
        lines += ["## Parameters", "", "```json", json.dumps(card["params"], indent=1), "```"]
    versions = ", ".join(f"{name} {version}" for name, version in card["versions"].items())
    return "\n".join([*lines, "", f"Made with {versions}.", ""])


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON does not know, as its text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "values") and callable(value.values) and hasattr(value, "to_json"):
        return plain(value.values())  # hyperparameters
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no such numbers; float() reads them back
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _describe(value: Any) -> dict[str, Any]:
    kinds = {tf.SparseTensor: "sparse", tf.RaggedTensor: "ragged"}
    kind = next((name for cls, name in kinds.items() if isinstance(value, cls)), "dense")
    shape = value.shape
    return {
        "dtype": value.dtype.name,
        "shape": None if shape.rank is None else shape.as_list(),
        "kind": kind,
    }


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _versions() -> dict[str, str]:
    versions = {
        "estimand": __version__,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
    }
    if "keras" in sys.modules and hasattr(sys.modules["keras"], "__version__"):
        versions["keras"] = sys.modules["keras"].__version__
    return versions
