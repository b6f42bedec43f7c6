"""The five-argument facade: Estimator. It only delegates."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import tensorflow as tf

from estimand.core import lines_of_old, tf_private
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError, NoCheckpointError
from estimand.core.interpreter.tracebacks import folded
from estimand.core.modes import ModeKeys
from estimand.core.old_code import handed_out
from estimand.core.session_config import apply_session_config, default_session_config
from estimand.core.spec import EstimatorSpec
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.model_dir import anchored
from estimand.engine.warm_start import apply as warm_start
from estimand.estimator import checks
from estimand.estimator.calls import evaluate, export, predict
from estimand.estimator.model_fn import call_model_fn, check_model_fn
from estimand.estimator.noted_params import settings
from estimand.estimator.run_context import engine_scope
from estimand.estimator.training import cluster
from estimand.estimator.training.prepared import TrainArguments
from estimand.estimator.training.train import train
from estimand.estimator.workspace import Workspace

_log = logging.getLogger("tensorflow")


class Estimator:
    """Trains, evaluates and predicts with a model given as a function.

    Args:
      model_fn: takes any of (features, labels, mode, params, config), returns an EstimatorSpec.
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.
      params: handed to model_fn and input_fn as they are.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from.

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x + 1)).repeat().batch(16)
    >>> def model_fn(features, labels, mode):
    ...     w = tf.compat.v1.get_variable("w", [1, 1])
    ...     b = tf.compat.v1.get_variable("b", [1])
    ...     y = features["x"] @ w + b
    ...     if mode == est.ModeKeys.PREDICT:
    ...         return est.EstimatorSpec(mode, predictions={"y": y})
    ...     loss = tf.reduce_mean(tf.square(y - labels))
    ...     optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))
    >>> estimator = est.Estimator(model_fn).train(input_fn, max_steps=200)
    >>> round(float(estimator.get_variable_value("b")[0]), 2)
    1.0
    """

    # For subclasses: first values are more than random; predictions of random ones only warn.
    _brings_weights = False
    _predicts_untrained = False

    _made_with: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        estimator = super().__new__(cls)
        estimator._made_with = settings(cls, args, kwargs)
        return estimator

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        Estimator._assert_members_are_not_overridden(self)
        config = checks.strategies(_with_model_dir(config, model_dir))
        self._model_dir: str = config.model_dir or ""
        given = config._session_config
        self._session_config = config.session_config or default_session_config()
        config = config.replace(session_config=self._session_config)
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = warm_start.normalize(warm_start_from)
        if model_fn is None:
            raise ConfigError("model_fn must be provided to Estimator.")
        check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._workspace = self._new_workspace(config)
        tf_private.make_graph_tensors_hashable()
        apply_session_config(given)
        with lines_of_old.in_order():
            _log.info("Using config: %s", config)

    def _new_workspace(self, config: RunConfig) -> Workspace:
        return Workspace(
            config,
            self._params,
            self._made_with,
            self._build,
            self._create_and_assert_global_step,
            self.latest_checkpoint,
            self._warm_start_settings,
            brings_weights=self._brings_weights,
            predicts_untrained=self._predicts_untrained,
        )

    def _with_model_fn(self, model_fn: Callable[..., EstimatorSpec]) -> Estimator:
        """A copy that calls another one: of the same class, so that what it can do remains."""
        result = copy.copy(self)
        result._model_fn = model_fn
        # It goes through our _call_model_fn, overridden or not; not twice.
        result._call_model_fn = model_fn  # type: ignore[method-assign]
        result._workspace = result._new_workspace(self._config)  # variables of its own
        return result

    @staticmethod
    def _assert_members_are_not_overridden(estimator: Any) -> None:
        """Under tf.estimator's name for it: AdaNet, which overrides them, replaces it first."""
        checks.members_not_overridden(estimator, Estimator)

    @property
    def model_dir(self) -> str:
        """Where checkpoints and event files are."""
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        """A copy of the RunConfig: changing it changes nothing here."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the params."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function, as (features, labels, mode, config) -> EstimatorSpec."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> Any:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    # The verbs

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Train on what `input_fn` gives, continuing from the latest checkpoint.

        `steps` counts from where training stands, `max_steps` is absolute. With neither,
        training goes on until the input ends. After an interruption (kill, SIGTERM, Ctrl-C)
        the same call continues on the next unseen batch.
        """
        with folded():
            checks.steps(steps, max_steps)
            checks.trains_here(self._config)
            hooks, saving_listeners = checks.hooks(hooks), checks.saving_listeners(saving_listeners)
            if cluster.serves(self._config):
                cluster.serve_chief(self._workspace)
                return self
            with engine_scope(self._workspace), cluster.taking_part(self._workspace):
                asked = TrainArguments(
                    hooks, saving_listeners, checks.whole(steps), checks.whole(max_steps)
                )
                train(self._workspace, input_fn, asked)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Metrics over `steps` batches, or all of them; also written to `eval_dir(name)`."""
        with folded(), engine_scope(self._workspace):
            checks.positive("steps", steps)
            hooks = checks.hooks(hooks)
            return evaluate.evaluate(
                self._workspace,
                input_fn,
                checks.whole(steps),
                hooks,
                checkpoint_path,
                self.eval_dir(name),
                name,
            )

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        *,
        untrained: bool = False,
    ) -> Iterator[Any]:
        """Yield predictions, row by row or, with `yield_single_examples=False`, per batch.

        A generator: nothing happens before the first value is asked for. Several may be used
        in turn. Without a checkpoint that is an error, unless `untrained=True` says that random
        weights will do.
        """
        with folded():
            hooks = checks.hooks(hooks)
        return predict.predict(
            self._workspace,
            input_fn,
            predict_keys,
            hooks,
            checkpoint_path,
            yield_single_examples,
            untrained,
        )

    def export_saved_model(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
        *,
        strip_default_attrs: bool = True,
    ) -> bytes:
        """Write a SavedModel for serving as a new version; returns its path, as bytes.

        `assets_extra` maps destinations in the export to files that are taken along. The
        version appears as a whole, named by the time, or not at all.
        """
        with folded():
            return self._export(
                export_dir_base,
                {experimental_mode: serving_input_receiver_fn},
                assets_extra=assets_extra,
                as_text=as_text,
                checkpoint_path=checkpoint_path,
                strip_default_attrs=strip_default_attrs,
            )

    def export_savedmodel(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """`export_saved_model` under its older name."""
        return self.export_saved_model(
            export_dir_base,
            serving_input_receiver_fn,
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: str | os.PathLike[str],
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Like `export_saved_model`, with a graph for each mode that has a receiver function."""
        with folded():
            return self._export(
                export_dir_base,
                input_receiver_fn_map,
                assets_extra=assets_extra,
                as_text=as_text,
                checkpoint_path=checkpoint_path,
                strip_default_attrs=True,
            )

    def _export(self, base: Any, receiver_fns: Mapping[str, Any], **options: Any) -> bytes:
        return export.export(
            self._workspace,
            base,
            receiver_fns,
            session_config=self._session_config,
            model_fn=self._model_fn,
            **options,
        )

    # What is on disk

    def latest_checkpoint(self) -> str | None:
        """The newest usable checkpoint in model_dir, or None."""
        return checkpoints.latest_checkpoint(self._model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Where `evaluate(name=...)` writes its event files."""
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def get_variable_names(self) -> list[str]:
        """Names of the variables in the latest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self._trained())]

    def get_variable_value(self, name: str) -> Any:
        """A variable's value in the latest checkpoint, as a NumPy array."""
        path = self._trained()
        reader = tf.train.load_checkpoint(path)
        name = name.removesuffix(":0")  # as Variable.name has it
        if not reader.has_tensor(name):
            names = ", ".join(sorted(reader.get_variable_to_shape_map()))
            raise NoCheckpointError(f"There is no variable {name!r} in {path}. It has: {names}.")
        return handed_out(reader.get_tensor(name))

    def _trained(self) -> str:
        path = self.latest_checkpoint()
        if path is None:
            raise NoCheckpointError(
                f"Could not find trained model in model_dir: {self._model_dir}. Call train first."
            )
        return path

    # Names that real subclasses touch

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: RunConfig | None = None
    ) -> EstimatorSpec:
        _log.info("Calling model_fn.")
        spec = call_model_fn(
            self._model_fn, features, labels, mode, self.params, config or self.config
        )
        _log.info("Done calling model_fn.")
        return spec

    def _create_global_step(self, graph: tf.Graph) -> tf.Variable:
        return tf.compat.v1.train.create_global_step(graph)

    def _create_and_assert_global_step(self, graph: tf.Graph) -> tf.Variable:
        step = self._create_global_step(graph)
        assert step is tf.compat.v1.train.get_global_step(graph)
        assert step.dtype.is_integer
        return step

    def _build(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        labels = None if mode == ModeKeys.PREDICT else labels
        return self._call_model_fn(features, labels, mode, self.config)

    @property
    def _config(self) -> RunConfig:
        return self._workspace.config

    def _receiver_of_its_input(self) -> Callable[[], Any]:
        """A serving_input_receiver_fn with the features of the input that was last seen."""
        return export.derived_receiver_fn(self._workspace, self._model_fn)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model_dir={self._model_dir!r})"


def _with_model_dir(config: Any, model_dir: str | os.PathLike[str] | None) -> RunConfig:
    """The configuration with the directory that both arguments agree on."""
    if config is None:
        config = RunConfig()
    elif not isinstance(config, RunConfig):
        raise ConfigError(
            f"config must be an instance of `RunConfig`, but provided {config!r}. "
            "Write est.RunConfig(...)."
        )
    given = anchored(model_dir) if model_dir else None
    configured = anchored(config.model_dir) if config.model_dir else None
    if given and configured and given != configured:
        raise ConfigError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{given}', in `RunConfig`: '{configured}' "
        )
    chosen = given or configured
    if not chosen:
        chosen = tempfile.mkdtemp()
        _log.warning("Using temporary folder as model directory: %s", chosen)
    return config if config.model_dir == chosen else config.replace(model_dir=chosen)
