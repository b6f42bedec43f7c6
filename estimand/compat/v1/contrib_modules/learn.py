"""`tf.contrib.learn`: modes, and how an Experiment is told what to export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from estimand.export.exporters import LatestExporter
from estimand.export.receivers import ServingInputReceiver


class ModeKeys:
    """The same modes under an older name for prediction."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


class InputFnOps(NamedTuple):
    """What an input function for serving gave, before there were receivers."""

    features: Any
    labels: Any
    default_inputs: Any


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: dict[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> LatestExporter:
    """For `Experiment(export_strategies=...)`: exports to `export/Servo` after evaluations."""
    del default_output_alternative_key, strip_default_attrs

    def receiver() -> Any:
        given = serving_input_fn()
        if isinstance(given, InputFnOps):
            return ServingInputReceiver(given.features, given.default_inputs)
        return given

    return LatestExporter("Servo", receiver, assets_extra, as_text, exports_to_keep)
