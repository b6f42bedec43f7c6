"""`tf.contrib.learn`: how exports are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from estimand.core.errors import ConfigError
from estimand.export.exporters import LatestExporter
from estimand.export.receivers import (
    ServingInputReceiver,
    TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)


class InputFnOps(NamedTuple):
    """What an input function for serving gave, before there were receivers."""

    features: Any
    labels: Any
    default_inputs: Any


def receiver_fn(serving_input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """An input function for serving as one that gives a receiver."""

    def receiver() -> Any:
        given = serving_input_fn()
        if not isinstance(given, InputFnOps) and not (type(given) is tuple and len(given) == 3):
            return given
        features, _, inputs = given
        if isinstance(features, Mapping):
            return ServingInputReceiver(features, inputs)
        return TensorServingInputReceiver(features, inputs)

    return receiver


def _giving_ops(make: Callable[..., Callable[[], Any]]) -> Callable[..., Callable[[], InputFnOps]]:
    def build(features: Any, default_batch_size: int | None = None) -> Callable[[], InputFnOps]:
        of_today = make(features, default_batch_size)

        def serving_input_fn() -> InputFnOps:
            receiver = of_today()
            return InputFnOps(receiver.features, None, receiver.receiver_tensors)

        return serving_input_fn

    return build


build_parsing_serving_input_fn = _giving_ops(build_parsing_serving_input_receiver_fn)
build_default_serving_input_fn = _giving_ops(build_raw_serving_input_receiver_fn)


class ExportStrategy:
    """A name, and a function that exports; it is given as an exporter."""

    def __init__(
        self, name: str, export_fn: Callable[..., Any], strip_default_attrs: bool | None = None
    ) -> None:
        if not callable(export_fn):
            raise ConfigError(f"ExportStrategy: export_fn must be callable, given: {export_fn!r}.")
        self.name, self.export_fn = name, export_fn
        self.strip_default_attrs = strip_default_attrs

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str | None = None,
        eval_result: Any = None,
        is_the_final_export: bool = True,
    ) -> Any:
        """Calls the function with what it takes."""
        from estimand.estimator.model_fn import argument_names

        del is_the_final_export
        known = {
            "checkpoint_path": checkpoint_path,
            "eval_result": eval_result,
            "strip_default_attrs": bool(self.strip_default_attrs),
        }
        taken = argument_names(self.export_fn)
        given = {name: known[name] for name in known if name in taken}
        return self.export_fn(estimator, export_path, **given)


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
    return LatestExporter(
        "Servo", receiver_fn(serving_input_fn), assets_extra, as_text, exports_to_keep
    )
