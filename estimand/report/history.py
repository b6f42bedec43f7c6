"""What a model_dir tells of its training: curves, starts, checkpoints, exports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from estimand.core.errors import NoModelError
from estimand.engine import events, time_spent
from estimand.engine.checkpoints import files
from estimand.export import versions
from estimand.export.loaded import reading

_PARAMETERS = "estimand_run.json"


@dataclass(frozen=True)
class Curve:
    """The values of one tag, by step; of a step that was made twice, the later value."""

    steps: list[int]
    seconds: list[float]  # since 1970
    values: list[float]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is left, with what evaluations said of its step."""

    name: str
    step: int
    bytes: int
    problem: str | None
    metrics: dict[str, float]
    is_last_of_a_call: bool | None = None  # None: not known, as of tf.estimator's


@dataclass(frozen=True)
class Export:
    """One exported version, as its model card describes it."""

    directory: str
    card: dict[str, Any]


@dataclass(frozen=True)
class History:
    """One model_dir."""

    name: str
    directory: str
    training: dict[str, Curve]
    evaluations: dict[str, dict[str, Curve]]  # by name of the evaluation; "" has none
    starts: list[events.StartOfTraining]
    checkpoints: list[Checkpoint]
    exports: list[Export]
    settings: dict[str, Any] = field(default_factory=dict)
    time_spent: dict[str, float] = field(default_factory=dict)  # seconds by kind, of all calls

    @property
    def last_step(self) -> int:
        curves = [
            *self.training.values(),
            *(c for e in self.evaluations.values() for c in e.values()),
        ]
        steps = [c.steps[-1] for c in curves if c.steps] + [c.step for c in self.checkpoints]
        return max(steps, default=0)

    def metrics_at_end(self, evaluation: str = "") -> dict[str, float]:
        """The newest value of each metric."""
        curves = self.evaluations.get(evaluation, {})
        return {tag: curve.values[-1] for tag, curve in curves.items() if curve.values}

    def parameters(self) -> dict[str, Any]:
        """What the last call of train was made with, or else the newest export, in one level."""
        cards = [export.card["params"] for export in self.exports if export.card.get("params")]
        noted = self.settings.get("params") or (cards[-1] if cards else None)
        return dict(in_one_level(noted)) if noted else {}


def read(model_dir: str | os.PathLike[str], name: str | None = None) -> History:
    """All that can be read of a training, finished or still running.

    Args:
      model_dir: of Estimand or of tf.estimator.
      name: what the report calls it; by default the last part of the path.

    Raises:
      NoModelError: nothing of a training is there.
    """
    directory = os.path.abspath(os.fspath(model_dir))
    if not os.path.isdir(directory):
        raise NoModelError(f"There is no directory {directory!r} to make a report of.")
    evaluations = {
        entry.removeprefix("eval").removeprefix("_"): _curves(os.path.join(directory, entry))
        for entry in sorted(os.listdir(directory))
        if entry == "eval" or entry.startswith("eval_")
    }
    history = History(
        name=name or os.path.basename(directory),
        directory=directory,
        training=_curves(directory),
        evaluations={key: curves for key, curves in evaluations.items() if curves},
        starts=events.read_starts(directory),
        checkpoints=_checkpoints(directory, evaluations.get("", {})),
        exports=_exports(os.path.join(directory, "export")),
        settings=_settings(directory),
        time_spent=time_spent.load(directory),
    )
    if not (history.training or history.evaluations or history.checkpoints):
        raise NoModelError(
            f"{directory!r} holds neither checkpoints nor event files: it is no model_dir of a "
            "training. Give the model_dir itself, as in `estimand report runs/census`."
        )
    return history


def read_all(model_dirs: Sequence[str | os.PathLike[str]]) -> list[History]:
    """Several, each once, under names that tell them apart."""
    directories = list(dict.fromkeys(os.path.abspath(os.fspath(given)) for given in model_dirs))
    names = distinct_names(directories)
    return [read(directory, name) for directory, name in zip(directories, names, strict=True)]


def distinct_names(directories: Sequence[str]) -> list[str]:
    """The last parts of different paths, as many as it takes.

    >>> distinct_names(["/runs/a/model", "/runs/b/model"]), distinct_names(["/runs/a", "/runs/b"])
    (['a/model', 'b/model'], ['a', 'b'])
    """
    parts = [directory.split(os.sep) for directory in directories]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            break
    return names


def in_one_level(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested dicts by their paths.

    >>> dict(in_one_level({"units": 8, "optimizer": {"name": "Adam"}}))
    {'units': 8, 'optimizer.name': 'Adam'}
    """
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from in_one_level(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _curves(directory: str) -> dict[str, Curve]:
    latest: dict[str, dict[int, tuple[float, float]]] = {}
    for scalar in events.read_timed_scalars(directory):
        latest.setdefault(scalar.tag, {})[scalar.step] = (scalar.seconds, scalar.value)
    return {
        tag: Curve(
            steps=sorted(points),
            seconds=[points[step][0] for step in sorted(points)],
            values=[points[step][1] for step in sorted(points)],
        )
        for tag, points in sorted(latest.items())
    }


def _checkpoints(directory: str, metrics: dict[str, Curve]) -> list[Checkpoint]:
    sizes = files.file_sizes(directory)
    described = []
    for prefix, problem in files.examine_checkpoints(directory):
        step, base = files.checkpoint_step(prefix), os.path.basename(prefix)
        described.append(
            Checkpoint(
                name=base,
                step=step,
                bytes=sum(size for name, size in sizes.items() if name.startswith(base + ".")),
                problem=problem,
                metrics={
                    tag: curve.values[curve.steps.index(step)]
                    for tag, curve in metrics.items()
                    if step in curve.steps
                },
                is_last_of_a_call=(files.read_meta(prefix) or {}).get("complete"),
            )
        )
    return sorted(described, key=lambda checkpoint: checkpoint.step)


def _exports(base: str) -> list[Export]:
    def folders() -> Iterator[str]:
        yield base
        if os.path.isdir(base):
            yield from (os.path.join(base, name) for name in sorted(os.listdir(base)))

    return [
        Export(version, reading.read_card(version))
        for folder in folders()
        if os.path.isdir(folder)
        for version in versions.versions(folder)
    ]


def _settings(directory: str) -> dict[str, Any]:
    try:
        with open(os.path.join(directory, _PARAMETERS), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}
