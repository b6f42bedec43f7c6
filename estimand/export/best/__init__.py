"""The best exporter, and its memory of what the best has been."""

from __future__ import annotations

import inspect
import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError, SpecError, UnknownKeyError
from estimand.core.handles import EstimatorHandle
from estimand.core.names import missing_key
from estimand.engine.events import read_events
from estimand.export import versions
from estimand.export.best import checkpoint as best_checkpoint
from estimand.export.best.record import Record, numbers
from estimand.export.exporters import ReceiverFn, _SavedModelExporter
from estimand.export.loaded.reading import read_card

_log = logging.getLogger("tensorflow")

Compare = Callable[..., bool]


def loss_smaller(best_eval_result: Any, current_eval_result: Any) -> bool:
    """Whether the current loss is smaller; a loss that is no number is worse than any.

    >>> loss_smaller({"loss": 0.5}, {"loss": 0.4})
    True
    """
    losses = []
    for name, result in (
        ("best_eval_result", best_eval_result),
        ("current_eval_result", current_eval_result),
    ):
        if not result or "loss" not in result:
            raise SpecError(f"{name} cannot be empty or no loss is found in it. Given: {result!r}.")
        losses.append(float(result["loss"]))
    best, current = losses
    if math.isnan(best) or math.isnan(current):
        return math.isnan(best) and not math.isnan(current)
    return best > current


class BestExporter(_SavedModelExporter):
    """Exports whenever the model is better than the best that was exported so far.

    The best is remembered in `model_dir/estimand_best.json`, so a restarted training does not
    export a worse model. Where there are exports but no such record, as in directories written by
    tf.estimator, the event files of evaluations tell it.

    Args:
      name: the name of the directory below `model_dir/export`.
      serving_input_receiver_fn: see `est.export`.
      event_file_pattern: which event files in `model_dir` tell of earlier evaluations. The
        default takes those of named evaluations, `eval_<name>/`, only if there are no others.
      compare_fn: `(best_eval_result, current_eval_result) -> bool`, true if the current one is
        better. By default the smaller loss is.
      assets_extra, as_text, exports_to_keep: as for the other exporters.
      keep_checkpoint: keep the checkpoint of the best export too, in `model_dir/best/<name>`.

    >>> exporter = BestExporter(serving_input_receiver_fn=lambda: None,
    ...     compare_fn=lambda best_eval_result, current_eval_result:
    ...         current_eval_result["auc"] > best_eval_result["auc"])
    >>> exporter.name
    'best_exporter'
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: ReceiverFn | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Compare = loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
        *,
        keep_checkpoint: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        _check_compare_fn(compare_fn)
        self.compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._keep_checkpoint = keep_checkpoint
        # By export_path, what was exported by an estimator that leaves no files behind.
        self._best: dict[str, dict[str, Any]] = {}

    def export(
        self,
        estimator: EstimatorHandle,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        best = self._best_so_far(estimator.model_dir, export_path, eval_result)
        if best is None:
            self._try_compare_fn(eval_result)
        if best is not None and not self._is_better(best, eval_result):
            return None
        _log.info("Performing best model export.")
        result = self._export(estimator, export_path, checkpoint_path, eval_result)
        written = isinstance(result, str | bytes | os.PathLike)
        version = os.path.basename(os.fsdecode(result)) if written else ""
        self._best.pop(export_path, None)
        if not versions.versions(export_path):
            self._best[export_path] = dict(eval_result or {})
        record = Record(dict(eval_result or {}), version, checkpoint_path)
        record.save(estimator.model_dir, export_path)
        if self._keep_checkpoint:
            folder = os.path.join(estimator.model_dir, "best", self._name)
            best_checkpoint.keep(checkpoint_path, folder)
        return result

    def _try_compare_fn(self, eval_result: Mapping[str, Any]) -> None:
        """A metric that is misspelt shows at the first evaluation, not after hours at the next."""
        try:
            self._is_better(eval_result, eval_result)
        except UnknownKeyError:
            raise
        except Exception as error:
            _log.debug("compare_fn cannot compare a result with itself: %r", error)

    def _is_better(self, best: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
        try:
            return bool(self.compare_fn(best_eval_result=best, current_eval_result=current))
        except KeyError as error:
            told = missing_key(error, {"metric": current})
            if told is None:
                raise
            raise told.with_traceback(error.__traceback__) from None

    def _best_so_far(
        self, model_dir: str, export_path: str, current: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The result of the best export there is; None if there is no export at all."""
        exports = versions.versions(export_path)
        if not exports:
            return self._best.get(export_path)
        record = Record.load(model_dir, export_path)
        newest = os.path.basename(exports[-1])
        if record is not None and record.version >= newest:
            return record.eval_result
        # The process ended between the export and the record of it; the export itself knows.
        metrics = read_card(exports[-1]).get("metrics")
        if metrics:
            return numbers(metrics)
        if record is not None:
            return record.eval_result
        return self._best_in_events(model_dir, current)

    def _best_in_events(self, model_dir: str, current: Mapping[str, Any]) -> dict[str, Any] | None:
        if not self._event_file_pattern:
            return None
        best: dict[str, Any] | None = None
        for result in _eval_results(model_dir, self._event_file_pattern):
            if result.get("global_step") == current.get("global_step"):
                continue  # the evaluation that this call is about
            try:
                better = best is None or self.compare_fn(
                    best_eval_result=best, current_eval_result=result
                )
            except (KeyError, ValueError):
                continue  # of another kind of evaluation
            if better:
                best = result
        return best


def _eval_results(model_dir: str, pattern: str) -> list[dict[str, Any]]:
    files = sorted(tf.io.gfile.glob(os.path.join(model_dir, pattern)))
    if not files and pattern == "eval/*.tfevents.*":
        files = sorted(tf.io.gfile.glob(os.path.join(model_dir, "eval_*/*.tfevents.*")))
    evaluated = []
    for file in files:
        for event in read_events(file):
            values = {v.tag: v.simple_value for v in event.summary.value if _is_number(v)}
            if values:
                evaluated.append({**values, "global_step": event.step})
    return evaluated


def _is_number(value: Any) -> bool:
    return bool(value.HasField("simple_value"))


def _check_compare_fn(compare_fn: Any) -> None:
    if compare_fn is None:
        raise ConfigError("`compare_fn` must not be None. Leave it out to compare losses.")
    if not callable(compare_fn):
        raise ConfigError(f"`compare_fn` must be a function, given: {compare_fn!r}.")
    wanted = ("best_eval_result", "current_eval_result")
    names = list(inspect.signature(compare_fn).parameters)
    for name in wanted:
        if name not in names:
            raise ConfigError(
                f"compare_fn ({compare_fn}) must include {name} argument. Write "
                "def compare_fn(best_eval_result, current_eval_result): ..."
            )
    others = [name for name in names if name not in (*wanted, "self")]
    if others:
        raise ConfigError(f"compare_fn ({compare_fn}) has following not expected args: {others}")
