"""The scalars of a training by group, for TensorBoard's page of custom scalars."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from estimand.engine.progress.results import by_importance
from estimand.report.history import History

_SPEED = ("global_step/sec", "steps_per_sec", "examples/sec")
_LOSS = "loss"


def groups(item: History) -> dict[str, dict[str, list[str]]]:
    """Group -> chart -> tags. Tags that differ in their layer or threshold share a chart.

    >>> from estimand.report.history import Curve
    >>> one = Curve([1], [0.0], [0.5])
    >>> training = {"loss": one, "dnn/hiddenlayer_0/activation": one}
    >>> evaluations = {"": {"loss": one, "recall/at_0.5": one, "recall/at_0.9": one}}
    >>> item = History("a", "a", training, evaluations, [], [], [])
    >>> for name, charts in groups(item).items():
    ...     print(name, charts)
    Loss {'loss': ['loss']}
    Evaluation {'recall': ['recall/at_0.5', 'recall/at_0.9']}
    Model {'activation': ['dnn/hiddenlayer_0/activation']}
    """
    evaluated = _tags(item.evaluations.values())
    trained = [tag for tag in _tags([item.training]) if tag not in evaluated]
    losses = [tag for tag in [*evaluated, *trained] if _LOSS in tag.lower()]
    speeds = [tag for tag in trained if tag in _SPEED]
    rest = [tag for tag in trained if tag not in losses and tag not in speeds]
    metrics = [tag for tag in evaluated if tag not in losses]
    made = {
        "Loss": _charts(losses, lambda tag: tag),
        "Evaluation": _charts(metrics, lambda tag: tag.partition("/")[0]),
        "Speed": _charts(speeds, lambda tag: tag),
        "Model": _charts(rest, lambda tag: tag.rpartition("/")[2]),
    }
    return {name: charts for name, charts in made.items() if charts}


def summary(item: History) -> Any:
    """The layout as a Summary message."""
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.plugins.custom_scalar import summary as custom_scalar

    categories = [
        layout_pb2.Category(
            title=group,
            chart=[
                layout_pb2.Chart(
                    title=title,
                    multiline=layout_pb2.MultilineChartContent(
                        tag=[f"^{re.escape(tag)}$" for tag in tags]
                    ),
                )
                for title, tags in charts.items()
            ],
        )
        for group, charts in groups(item).items()
    ]
    return custom_scalar.pb(layout_pb2.Layout(category=categories))


def _tags(curves: Iterable[dict[str, Any]]) -> list[str]:
    return by_importance(dict.fromkeys((tag for run in curves for tag in run), 0.0))


def _charts(tags: list[str], title: Any) -> dict[str, list[str]]:
    charts: dict[str, list[str]] = {}
    for tag in tags:
        charts.setdefault(title(tag), []).append(tag)
    return charts
