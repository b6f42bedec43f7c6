"""Training and evaluation in one process.

    train() ── steps ── checkpoint ──► which EvalSpecs are due?
                 ▲                        evaluate, on the variables as they are
                 │                        early stopping looks at the results
                 │                        exporters
                 └────────────────────────┘
    then, unless its step was evaluated already, the last checkpoint

It is one call of `train`: its input goes on undisturbed, nothing is built twice, and a checkpoint
is evaluated while its files are still being written.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import voice
from estimand.core.handles import EstimatorHandle
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.engine import time_spent
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.hook_calls.cadence import Cadence
from estimand.engine.model_dir import anchored
from estimand.estimator.lifecycle.closing import best_exporter, tell_the_end
from estimand.estimator.lifecycle.evaluator import (
    SpecEvaluator,
    evaluators_of,
    last_results,
    step_of,
)
from estimand.estimator.lifecycle.schedule import EvaluationSchedule
from estimand.estimator.lifecycle.table import ResultsTable
from estimand.estimator.reading import newest_checkpoint, wait_for_files
from estimand.estimator.workspace import Workspace
from estimand.export.best import loss_smaller
from estimand.hooks import CheckpointSaverHook, LoopHook, stop_record
from estimand.hooks.early_stopping import EarlyStoppingHook
from estimand.hooks.evaluation_watcher import EvaluationWatcher

_log = logging.getLogger("tensorflow")

_SAVERS = (CheckpointSaverHook, tf.compat.v1.train.CheckpointSaverHook)
_NEVER = 1e12  # seconds


def run_local(
    estimator: EstimatorHandle,
    train_spec: TrainSpec,
    eval_spec: EvalSpec | Sequence[EvalSpec],
    *,
    min_steps_between: int = 0,
) -> tuple[Any, Any]:
    """Train to the end, evaluating on the way; the last metrics and what exporters returned."""
    evaluation = LocalEvaluation(estimator, train_spec, eval_spec, min_steps_between)
    with evaluation.watched():
        _train_and_evaluate(estimator, train_spec, evaluation)
    return evaluation.results()


def _train_and_evaluate(
    estimator: EstimatorHandle, train_spec: TrainSpec, evaluation: LocalEvaluation
) -> None:
    if not evaluation.was_stopped_for_good():
        _log.info(
            "Start train and evaluate loop. The evaluate will happen after every checkpoint. "
            "Checkpoint frequency is determined based on RunConfig arguments: "
            "save_checkpoints_steps %s or save_checkpoints_secs %s.",
            estimator.config.save_checkpoints_steps,
            estimator.config.save_checkpoints_secs,
        )
        estimator.train(
            input_fn=train_spec.input_fn,
            max_steps=train_spec.max_steps,
            hooks=[*train_spec.hooks, *evaluation.hooks()],
            saving_listeners=[*train_spec.saving_listeners, EvaluationListener(evaluation)],
        )
    evaluation.finish()


class LocalEvaluation:
    """The evaluations of one run of `train_and_evaluate`."""

    def __init__(
        self,
        estimator: EstimatorHandle,
        train_spec: TrainSpec,
        eval_spec: EvalSpec | Sequence[EvalSpec],
        min_steps_between: int = 0,
    ) -> None:
        self._estimator = estimator
        self._workspace = Workspace.of(estimator)
        self._max_steps = train_spec.max_steps
        self._early = [h for h in train_spec.hooks if isinstance(h, EarlyStoppingHook)]
        self._watchers = [h for h in train_spec.hooks if isinstance(h, EvaluationWatcher)]
        self._has_saver = any(isinstance(h, _SAVERS) for h in train_spec.hooks)
        self._several = not isinstance(eval_spec, EvalSpec)
        self._evaluators = evaluators_of(estimator, eval_spec)
        judge = best_exporter(self._evaluators)
        better = loss_smaller if judge is None else judge.compare_fn
        self._table = ResultsTable(estimator.config.progress, self._several, better)
        self._stopped_early = False
        self._started = False
        self._start_path = checkpoints.latest_checkpoint(estimator.model_dir)
        start_step = 0 if self._start_path is None else step_of(self._start_path)
        self._schedules = [
            EvaluationSchedule(evaluator.spec, start_step, min_steps_between=min_steps_between)
            for evaluator in self._evaluators
        ]

    # Before

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, what happens is told; what it came to, at the end."""
        wanted = self._estimator.config.progress is not False
        shown = voice.showing(voice.EVALUATION) if self._table.enabled else contextlib.nullcontext()
        with voice.speaking(wanted):
            with shown, self._watchers_told():
                yield
            if wanted:
                tell_the_end(self._estimator.model_dir, self._evaluators)

    @contextlib.contextmanager
    def _watchers_told(self) -> Iterator[None]:
        for watcher in self._watchers:
            watcher.opened()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            for watcher in self._watchers:
                watcher.closed(error)

    def was_stopped_for_good(self) -> bool:
        """Whether early stopping has ended this training before, and would do so again."""
        record = stop_record.read(self._estimator.model_dir)
        if record is None:
            return False
        at_its_step = self._start_path is not None and step_of(self._start_path) == record.step
        if at_its_step and any(hook.wants_to_stop() for hook in self._early):
            _log.info(
                "Skipping training, which was stopped early at step %d: %s To go on, change the "
                "hook, or remove %s.",
                record.step,
                record.reason,
                os.path.join(self._estimator.model_dir, stop_record.STOP_FILE),
            )
            self._stopped_early = True
            return True
        stop_record.remove(self._estimator.model_dir)
        return False

    def hooks(self) -> list[Any]:
        """Hooks that see to it that there is a checkpoint when an evaluation is due."""
        given_hooks: list[Any] = [
            SaveForEvaluationHook(evaluator.spec.every_n_steps, evaluator.spec.every_n_secs)
            for evaluator in self._evaluators
            if evaluator.spec.every_n_steps is not None or evaluator.spec.every_n_secs is not None
        ]
        return [*self._saver_of_our_own(), *given_hooks] if given_hooks else []

    def _saver_of_our_own(self) -> list[CheckpointSaverHook]:
        """What saves for evaluations, and at the end, where the configuration saves nothing."""
        config = self._estimator.config
        if config.save_checkpoints_steps or config.save_checkpoints_secs or self._has_saver:
            return []
        graph = config.checkpoint_save_graph_def and not config.run_eagerly
        return [CheckpointSaverHook(config.model_dir or "", save_secs=_NEVER, save_graph_def=graph)]

    # During

    def checkpoint_saved(self, step: int) -> bool:
        """Evaluate the checkpoint just taken, where that is due; True if training should stop."""
        first, self._started = not self._started, True
        if self._workspace is not None and self._workspace.is_interrupted:
            _log.info("Skip the current checkpoint eval: the program was told to end.")
            return False
        due = self._left_over(step) if first else self._due(step)
        if not due:
            return False
        return self._evaluate(due, self._newest_checkpoint(), step)

    def _due(self, step: int) -> list[SpecEvaluator]:
        due = []
        for evaluator, schedule in zip(self._evaluators, self._schedules, strict=True):
            why_not = schedule.why_not(step)
            if why_not is None:
                due.append(evaluator)
                schedule.began(step)
            else:
                _log.info("%s%s", why_not, f" ({evaluator.spec.name})" if self._several else "")
        return due

    def _left_over(self, step: int) -> list[SpecEvaluator]:
        """At the start: what was due when an earlier run was interrupted, and was not done.

        Otherwise the checkpoint of the start is none of ours to evaluate.
        """
        path = self._start_path
        meta = (checkpoints.read_meta(path) if path else None) or {}
        begun_anew = (meta.get("input") or {}).get("kind") == "start"
        if path is None or step_of(path) != step or meta.get("complete", True) or begun_anew:
            return []
        saved_at = os.path.getmtime(f"{path}.index")
        result = []
        for evaluator in self._evaluators:
            earlier = evaluator.earlier_evaluations(step)
            schedule = EvaluationSchedule(evaluator.spec)
            if earlier:
                schedule.began(earlier[-1].step, earlier[-1].time)
            done = any(e.step == step for e in earlier)
            if (done or schedule.why_not(step, saved_at)) and not evaluator.exports_are_due(path):
                continue
            if step > 0:
                _log.info("Evaluating step %d, which an interruption had kept from it.", step)
                result.append(evaluator)
        return result

    def _evaluate(self, due: Sequence[SpecEvaluator], path: str | None, step: int) -> bool:
        watchers_wishes = [self._evaluate_by(evaluator, path) for evaluator in due]
        # All of them, even if the first says stop: each may have something to log.
        wishes = [hook.evaluated(step) for hook in self._early]
        self._stopped_early |= any(wishes)
        for evaluator in due:
            if evaluator.spec.exporters:
                self._wait_for_files()
            evaluator.export(final=self._is_final(evaluator.step))
        return any(wishes) or any(watchers_wishes)

    def _evaluate_by(self, evaluator: SpecEvaluator, path: str | None) -> bool:
        """One evaluation, and telling of it; True if a watcher asks the training to stop."""
        evaluator.evaluate(path)
        metrics = evaluator.metrics or {}
        self._table.add(evaluator.spec.name, metrics)
        return any([w.evaluated(evaluator.spec.name, metrics) for w in self._watchers])

    def _is_final(self, step: int | None) -> bool:
        reached = self._max_steps is not None and step is not None and step >= self._max_steps
        return reached or self._stopped_early

    def _newest_checkpoint(self) -> str | None:
        if self._workspace is None:
            return self._estimator.latest_checkpoint()
        return newest_checkpoint(self._workspace)

    def _wait_for_files(self) -> None:
        if self._workspace is not None:
            wait_for_files(self._workspace)

    # After

    def finish(self) -> None:
        """Evaluate the last checkpoint, unless that has been done; tell exporters it is final."""
        self._stopped_early |= any(hook.reason is not None for hook in self._early)
        path = self._newest_checkpoint()
        if path is None:
            _log.warning(
                "There was no new checkpoint after the training, so nothing was evaluated. Is "
                "there any data? %s has no checkpoint.",
                self._estimator.model_dir,
            )
            return
        with time_spent.counted(anchored(self._estimator.model_dir)):
            for evaluator in self._evaluators:
                self._finish(evaluator, path)

    def _finish(self, evaluator: SpecEvaluator, path: str) -> None:
        if evaluator.path != path:
            was_done = not self._started and any(
                e.checkpoint == os.path.basename(path) for e in evaluator.earlier_evaluations(2**62)
            )
            self._evaluate_by(evaluator, path)
            evaluator.export(final=self._is_final(evaluator.step), again=was_done)
        elif self._is_final(evaluator.step):
            evaluator.export(final=True)

    def results(self) -> tuple[Any, Any]:
        """(metrics, exports) of a single `EvalSpec`; dicts of these by name for a list."""
        return last_results(self._evaluators, several=self._several)


class EvaluationListener(tf.compat.v1.train.CheckpointSaverListener):
    """Tells the evaluation of each checkpoint."""

    reads_files = False  # it evaluates the variables, which are what is being saved

    def __init__(self, evaluation: LocalEvaluation) -> None:
        self._evaluation = evaluation

    def after_save(self, session: tf.compat.v1.Session, global_step_value: int) -> bool:
        return self._evaluation.checkpoint_saved(int(global_step_value))


class SaveForEvaluationHook(LoopHook):
    """Has a checkpoint taken when an evaluation is due: it tells the listeners."""

    def __init__(self, every_n_steps: int | None, every_n_secs: float | None) -> None:
        # Should both be given, steps are looked at here; seconds are minded at each checkpoint.
        steps = every_n_steps
        secs = every_n_secs if every_n_steps is None else None
        self.cadence = Cadence(steps, secs, at_start=False, aligned=steps is not None)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if self._loop is None:
            return
        if self._loop.saves_by_itself:
            self._loop.save_now()
            return
        savers = (hook for hook in self._loop.hooks if isinstance(hook, CheckpointSaverHook))
        saver = next(savers, None)
        if saver is not None and saver.save_now(run_context.session):
            run_context.request_stop()
