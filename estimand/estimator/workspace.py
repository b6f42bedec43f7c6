"""What all phases of one estimator share: its settings, its model_dir, its live models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.config import RunConfig
from estimand.engine.distributed.distribution import distribution_of
from estimand.engine.eager.run import EagerRunner
from estimand.engine.live_model import LiveModel
from estimand.engine.tracing.trace import CallModelFn
from estimand.estimator.noted_params import noted
from estimand.export.deriving import TrainedOn
from estimand.inputs.contract import ModelInput, call_input_fn


class Workspace:
    """Handed to train, evaluate, predict and export, which know of no Estimator.

    Args:
      config: with the model_dir.
      params: for the input function.
      made_with: settings that are not in the params, such as the sizes of a canned model.
      build: calls the model function.
      create_global_step: makes the global step of a graph.
      latest_checkpoint: finds the checkpoint to go on from; subclasses have their own ways.
      warm_start: where the first values come from, if not from initializers.
      brings_weights: the first values are more than random.
      predicts_untrained: predictions of random values only warn.
    """

    def __init__(
        self,
        config: RunConfig,
        params: Any,
        made_with: dict[str, Any],
        build: CallModelFn,
        create_global_step: Callable[[tf.Graph], tf.Variable],
        latest_checkpoint: Callable[[], str | None],
        warm_start: Any = None,
        *,
        brings_weights: bool = False,
        predicts_untrained: bool = False,
    ) -> None:
        self.config = config
        self.model_dir: str = config.model_dir or ""
        self.params = params
        self.made_with = made_with
        self.build = build
        self.create_global_step = create_global_step
        self.latest_checkpoint = latest_checkpoint
        self.warm_start = warm_start
        self.brings_weights = brings_weights
        self.predicts_untrained = predicts_untrained
        # What the last input looked like, for a receiver that is derived from it.
        self.trained_on: TrainedOn | None = None
        self._live: LiveModel | None = None
        self._evaluated: LiveModel | None = None
        self._apart: dict[bool, LiveModel] = {}

    @staticmethod
    def of(estimator: Any) -> Workspace | None:
        """That of an estimator; None for something else that has its methods."""
        workspace = getattr(estimator, "_workspace", None)
        return workspace if isinstance(workspace, Workspace) else None

    @staticmethod
    def params_noted_by(estimator: Any) -> dict[str, Any]:
        """What tells the model of an estimator from others; nothing, if it cannot be asked."""
        workspace = Workspace.of(estimator)
        return {} if workspace is None else workspace.noted_params()

    def noted_params(self) -> dict[str, Any]:
        """What tells this model from others, for who compares runs."""
        return {**(noted(self.made_with) or {}), **(noted(self.params) or {})}

    def call_input_fn(
        self,
        input_fn: Callable[..., Any],
        mode: str,
        context: tf.distribute.InputContext | None = None,
    ) -> ModelInput:
        """What it gives; params and config are copies, so that it can change nothing here."""
        return call_input_fn(
            input_fn,
            mode=mode,
            params=copy.deepcopy(self.params),
            config=copy.deepcopy(self.config),
            input_context=context,
        )

    @property
    def live(self) -> LiveModel:
        """The variables that are trained, and their traces."""
        if self._live is None:
            self._live = self._model(self.config.train_distribute)
        return self._live

    @property
    def live_if_any(self) -> LiveModel | None:
        """Like `live`, but nothing is made."""
        return self._live

    @property
    def evaluated(self) -> LiveModel:
        """Where evaluation has a strategy of its own, it has its own copy of the variables."""
        strategy = self.config.eval_distribute
        if strategy is None or strategy is self.config.train_distribute:
            return self.live
        if self._evaluated is None:
            self._evaluated = self._model(strategy)
        return self._evaluated

    def apart(self, *, evaluating: bool) -> LiveModel:
        """Of those who read while the estimator is trained; never trained itself."""
        strategy = self.config.eval_distribute if evaluating else None
        distributed = strategy is not None
        if distributed not in self._apart:
            self._apart[distributed] = self._model(strategy, apart=True)
        return self._apart[distributed]

    @property
    def is_interrupted(self) -> bool:
        """Whether a training that is under way was told to end."""
        interrupts = None if self._live is None else self._live.interrupts
        return interrupts is not None and interrupts.received is not None

    def eager_runner(self, mode: str, seed: int) -> EagerRunner:
        """What runs the model function eagerly, on the variables that are trained."""
        return EagerRunner(self.build, self.create_global_step, self.live.store, mode, seed)

    def forget_what_is_gone(self) -> None:
        """The model is what is on disk: if model_dir was emptied, it starts anew."""
        self.live.forget_if(self.is_gone())

    def is_gone(self) -> bool:
        """Whether there was a checkpoint of the live model, and is none any more."""
        return self.live.store.outlived_its_checkpoint and self.latest_checkpoint() is None

    def distribute(self, strategy: tf.distribute.Strategy | None) -> None:
        """Train under another strategy from now on, with new variables: these know only theirs."""
        self.config, self._live = self.config.replace(train_distribute=strategy), None

    def _model(self, strategy: tf.distribute.Strategy | None, *, apart: bool = False) -> LiveModel:
        distribution = distribution_of(strategy)
        return LiveModel(self.build, self.create_global_step, distribution, apart=apart)
