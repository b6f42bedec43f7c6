"""The sections on how trainings went: curves, a comparison, checkpoints, exports."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from estimand.engine import time_spent
from estimand.engine.progress.results import by_importance, foreground
from estimand.report import faults, figures, weights
from estimand.report.history import History
from estimand.report.page import Card, Cell, Section, Table

_SPEED = "global_step/sec"
_RATE = "learning_rate"
_SMALLER_IS_BETTER = ("loss", "error", "perplexity", "mse", "mae", "rmse")
_MOST_CARDS = 24
_MOST_WEIGHTS = 30
_OF_TIME = (
    "input: steps waited for their batches. starting: input function, tracing, restoring, "
    "compiling. looks: hooks. checkpoints: until training could go on."
)


def sections(histories: list[History], columns: Mapping[str, Any]) -> list[Section]:
    """Evaluations first: they are what a training is judged by.

    Args:
      columns: feature columns by name, which know what weights stand for.
    """
    compared = [Section("compared", "Side by side", [_comparison(histories)])]
    return [
        *(compared if len(histories) > 1 else ()),
        Section("evaluation", "Evaluation", list(_evaluation_cards(histories))),
        Section("training", "Training", list(_training_cards(histories)), _of_starts(histories)),
        Section("time", "Where the time went", _time_cards([h for h in histories if h.time_spent])),
        Section("starts", "Starts and faults", [c for item in histories for c in _events(item)]),
        Section(
            "checkpoints", "Checkpoints", [_checkpoints(h) for h in histories if h.checkpoints]
        ),
        Section("weights", "Weights", [c for h in histories for c in _weights(h, columns)]),
        Section("exports", "Exports", [_exports(h) for h in histories if h.exports]),
    ]


def _evaluation_cards(histories: list[History]) -> Iterable[Card]:
    names = sorted({name for item in histories for name in item.evaluations})
    for name in names:
        tags = _union(item.evaluations.get(name, {}) for item in histories)
        for tag in by_importance(foreground(dict.fromkeys(tags, 0.0)))[:_MOST_CARDS]:
            lines = {
                item.name: item.evaluations[name][tag]
                for item in histories
                if tag in item.evaluations.get(name, {})
            }
            yield Card(f"{tag} ({name})" if name else tag, figures.as_html(figures.curves(lines)))


def _training_cards(histories: list[History]) -> Iterable[Card]:
    tags = _union(item.training for item in histories)
    tags.sort(key=lambda tag: (tag != "loss", _RATE not in tag, tag != _SPEED))
    for tag in tags[:_MOST_CARDS]:
        lines = {item.name: item.training[tag] for item in histories if tag in item.training}
        resumed = [start.step for start in histories[0].starts[1:]] if len(histories) == 1 else ()
        title = "steps per second" if tag == _SPEED else tag
        yield Card(title, figures.as_html(figures.curves(lines, resumed)), smooth=True)


def _time_cards(histories: list[History]) -> list[Card]:
    if not histories:
        return []
    by_run = {item.name: item.time_spent for item in histories}
    kinds = list(time_spent.added([item.time_spent for item in histories]))
    rows = [
        [
            Cell(item.name, "text"),
            *(Cell(_duration(item.time_spent.get(kind))) for kind in kinds),
            Cell(_duration(sum(item.time_spent.values()))),
            Cell(_bound_by(item.time_spent)),
        ]
        for item in histories
    ]
    table = Table(["run", *kinds, "in all", "steps waited"], rows)
    picture = figures.as_html(figures.time_spent(by_run, kinds))
    return [Card("All calls of train", picture, table, _OF_TIME)]


def _bound_by(seconds: Mapping[str, float]) -> str:
    """How much of their time steps wait, and what that means.

    >>> _bound_by({"input": 3.0, "steps": 1.0}), _bound_by({"input": 0.0, "steps": 1.0})
    ('75 %: input-bound', '0 %: compute-bound')
    """
    share = time_spent.waiting_share(seconds)
    if share is None:
        return "not known"
    bound = "input-bound" if time_spent.is_input_bound(seconds) else "compute-bound"
    return f"{100 * share:.0f} %: {bound}"


def _of_starts(histories: list[History]) -> str:
    resumed = len(histories) == 1 and len(histories[0].starts) > 1
    return "Dotted lines: the training was resumed there." if resumed else ""


def _comparison(histories: list[History]) -> Card:
    """One row for each training, the best of each metric marked; parameters that differ."""
    metrics = by_importance(dict.fromkeys(_union(item.metrics_at_end() for item in histories), 0.0))
    parameters = _that_differ([_parameters(item) for item in histories])
    best = {name: _best(name, histories) for name in metrics}
    rows = []
    for item, values in zip(histories, parameters, strict=True):
        last = item.metrics_at_end()
        rows.append(
            [
                Cell(item.name, "text"),
                *(Cell(value) for value in values.values()),
                Cell(f"{item.last_step:,}"),
                *(
                    Cell(_number(last.get(name)), "best" if last.get(name) == best[name] else "")
                    for name in metrics
                ),
            ]
        )
    columns = ["run", *(parameters[0] if parameters else ()), "steps", *metrics]
    return Card("The last evaluation of each", table=Table(columns, rows))


def _events(item: History) -> Iterable[Card]:
    if item.starts:
        yield _starts(item)
    if wrong := faults.found(item):
        rows = [[Cell(f"{fault.step:,}"), Cell(fault.what, "long")] for fault in wrong]
        yield Card(f"{item.name}: faults", table=Table(["step", "what"], rows))


def _starts(item: History) -> Card:
    rows = []
    for number, start in enumerate(item.starts):
        when = datetime.datetime.fromtimestamp(start.seconds).astimezone()
        what = "began" if number == 0 else "resumed"
        rows.append(
            [Cell(what, "text"), Cell(f"{start.step:,}"), Cell(f"{when:%Y-%m-%d %H:%M:%S}")]
        )
    return Card(f"{item.name}: starts", table=Table(["", "first step", "when"], rows))


def _checkpoints(item: History) -> Card:
    metrics = by_importance(
        dict.fromkeys(_union(checkpoint.metrics for checkpoint in item.checkpoints), 0.0)
    )[:6]
    rows = [
        [
            Cell(checkpoint.name, "text"),
            Cell(_size(checkpoint.bytes)),
            *(Cell(_number(checkpoint.metrics.get(name))) for name in metrics),
            Cell(checkpoint.problem or "intact"),
        ]
        for checkpoint in item.checkpoints
    ]
    return Card(item.name, table=Table(["checkpoint", "size", *metrics, "state"], rows))


def _weights(item: History, columns: Mapping[str, Any]) -> Iterable[Card]:
    if linear := weights.of_linear_model(item.directory, columns):
        drawn = figures.as_html(figures.weights(linear[:_MOST_WEIGHTS]))
        text = f"The largest of {len(linear):,}: what a value adds to the logits, or to the answer."
        yield Card(f"{item.name}: linear weights", drawn, text=text)
    rows = [
        [
            Cell(layer.name, "text"),
            Cell(" by ".join(map(str, layer.shape)) or "1"),
            *(Cell(_number(v)) for v in (layer.mean, layer.spread, layer.least, layer.most)),
        ]
        for layer in weights.layers(item.directory)
    ]
    if rows:
        names = ["variable", "shape", "mean", "spread", "least", "most"]
        yield Card(f"{item.name}: the newest checkpoint", table=Table(names, rows))


def _exports(item: History) -> Card:
    metrics = by_importance(
        dict.fromkeys(_union(export.card.get("metrics", {}) for export in item.exports), 0.0)
    )[:5]
    rows = [
        [
            Cell(export.directory.removeprefix(item.directory + "/"), "text"),
            Cell(_count(export.card.get("global_step"))),
            Cell(_count(export.card.get("trainable_parameters"))),
            *(Cell(_number(export.card.get("metrics", {}).get(name))) for name in metrics),
        ]
        for export in item.exports
    ]
    return Card(item.name, table=Table(["export", "step", "parameters", *metrics], rows))


def _parameters(item: History) -> dict[str, str]:
    return {name: _text(value) for name, value in item.parameters().items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _that_differ(all_parameters: list[dict[str, str]]) -> list[dict[str, str]]:
    names = [n for n in _union(all_parameters) if len({p.get(n) for p in all_parameters}) > 1]
    return [{name: given.get(name, "") for name in names} for given in all_parameters]


def _best(name: str, histories: list[History]) -> float | None:
    last = [item.metrics_at_end().get(name) for item in histories]
    values = [value for value in last if value is not None and math.isfinite(value)]
    return (min if smaller_is_better(name) else max)(values) if values else None


def smaller_is_better(metric: str) -> bool:
    """What the name of a metric tells.

    >>> smaller_is_better("average_loss"), smaller_is_better("accuracy")
    (True, False)
    """
    return any(word in metric.lower() for word in _SMALLER_IS_BETTER)


def _union(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """All keys, in the order in which they come."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _number(value: float | None) -> str:
    return "" if value is None else f"{float(value):.6g}"


def _duration(seconds: float | None) -> str:
    """As a person says it.

    >>> [_duration(s) for s in (0.0123, 3.456, 83, 7384)]
    ['0.01 s', '3.46 s', '1:23 min', '2:03:04 h']
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _size(count: int) -> str:
    """As a person says it.

    >>> [_size(count) for count in (823, 4_321, 1_234_567, 12_345_678_901)]
    ['823 bytes', '4.3 kB', '1.2 MB', '12.3 GB']
    """
    for unit, bytes_in_it in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_in_it:
            return f"{count / bytes_in_it:,.1f} {unit}"
    return f"{count} bytes"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
