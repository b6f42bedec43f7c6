"""When a model is exported during `train_and_evaluate`: one class per policy."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from estimand.core.errors import ConfigError
from estimand.core.handles import EstimatorHandle
from estimand.export import card, versions
from estimand.export.loaded.reading import read_card

ReceiverFn = Callable[[], Any]


class Exporter(abc.ABC):
    """Called after each evaluation, to export the model or not; subclass it for a policy of yours.

    >>> class Announcer(Exporter):
    ...     name = "announcer"
    ...     def export(self, estimator, export_path, checkpoint_path, eval_result,
    ...                is_the_final_export):
    ...         print("loss", eval_result["loss"])
    >>> Announcer().export(None, "", "", {"loss": 0.5}, False)
    loss 0.5
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the directory below `model_dir/export`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Export to `export_path` if it is time; returns the path of the export, or None."""


class _SavedModelExporter(Exporter):
    """Writes SavedModels; `export` of its subclasses says when."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        exports_to_keep: int | None = None,
    ) -> None:
        kind = type(self).__name__
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{kind} needs a name, given: {name!r}. Give it a non-empty string.")
        if serving_input_receiver_fn is not None and not callable(serving_input_receiver_fn):
            raise ConfigError(
                f"{kind}({name!r}) needs a function as serving_input_receiver_fn, given: "
                f"{serving_input_receiver_fn!r}. Leave it out to take what the input function "
                "gives, or make one with est.export.build_parsing_serving_input_receiver_fn("
                "feature_spec) or build_raw_serving_input_receiver_fn(features)."
            )
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ConfigError(
                "`exports_to_keep`, if provided, must be a positive number. "
                f"Got {exports_to_keep}. None keeps all exports."
            )
        self._name = name
        self._receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        return self._name

    def _export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
    ) -> Any:
        with card.noting(metrics=dict(eval_result or {}), exporter=self._name):
            result = estimator.export_saved_model(
                export_path,
                self._receiver_fn or self._derived(estimator),
                assets_extra=self._assets_extra,
                as_text=self._as_text,
                checkpoint_path=checkpoint_path,
            )
        versions.collect_garbage(export_path, self._exports_to_keep)
        return result

    def _derived(self, estimator: EstimatorHandle) -> ReceiverFn:
        """From what the model was trained on, or evaluated: the input function in this process."""
        derive = getattr(estimator, "_receiver_of_its_input", None)
        if derive is None:
            raise ConfigError(
                f"{type(self).__name__}({self._name!r}) needs a serving_input_receiver_fn for a "
                f"{type(estimator).__name__}."
            )
        return derive()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


class LatestExporter(_SavedModelExporter):
    """Exports after every evaluation, and keeps the newest `exports_to_keep` exports.

    Args:
      name: of the folder below `model_dir/export`.
      serving_input_receiver_fn: what a server will be sent; None: made of the training input.
      assets_extra: files to take along, destination: source.
      as_text: whether to write `saved_model.pbtxt`.
      exports_to_keep: how many of the newest stay; None: all.

    >>> import estimand as est
    >>> exporter = est.LatestExporter("latest", exports_to_keep=2)
    >>> exporter.name
    'latest'
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        return self._export(estimator, export_path, checkpoint_path, eval_result)


class FinalExporter(_SavedModelExporter):
    """Exports once, when training has reached `TrainSpec.max_steps` or was stopped early.

    Without `max_steps` there is no last step: where the input just ends, nothing is exported.

    Args:
      name: of the folder below `model_dir/export`.
      serving_input_receiver_fn: what a server will be sent; None: made of the training input.
      assets_extra: files to take along, destination: source.
      as_text: whether to write `saved_model.pbtxt`.

    >>> import estimand as est
    >>> exporter = est.FinalExporter("final")
    >>> exporter.name
    'final'
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

    def export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        if not is_the_final_export:
            return None
        return self._export(estimator, export_path, checkpoint_path, eval_result)


class StepsExporter(_SavedModelExporter):
    """Exports at the first evaluation at or after each of the given steps, and at the end.

    Which steps are done is told by the exports that there are, so a restart repeats none.

    Args:
      steps_to_keep: the global steps to export at.
      name: the name of the directory below `model_dir/export`.
      serving_input_receiver_fn, assets_extra, as_text: as for the other exporters.
      exports_to_keep: how many of the newest to keep; None for all.

    >>> import estimand as est
    >>> exporter = est.StepsExporter([1_000, 10_000], "steps")
    >>> exporter.name
    'steps'
    """

    def __init__(
        self,
        steps_to_keep: Iterable[int],
        name: str = "steps_exporter",
        serving_input_receiver_fn: ReceiverFn | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = None,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        if isinstance(steps_to_keep, int):
            steps_to_keep = [steps_to_keep]
        self._steps = sorted(set(steps_to_keep))
        wrong = [s for s in self._steps if not isinstance(s, int) or s <= 0]
        if wrong or not self._steps:
            raise ConfigError(
                "steps_to_keep must be positive whole numbers, at least one; given: "
                f"{list(self._steps)!r}."
            )

    def export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        step = int(eval_result["global_step"])
        done = max((exported_step(v) for v in versions.versions(export_path)), default=-1)
        due = any(done < wanted <= step for wanted in self._steps)
        if not due and not (is_the_final_export and done < step):
            return None
        return self._export(estimator, export_path, checkpoint_path, eval_result)


def exported_step(version: str) -> int:
    """The global step of an export, as its model card has it; -1 if it has none."""
    step = read_card(version).get("global_step")
    return step if isinstance(step, int) else -1
