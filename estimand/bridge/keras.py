"""`est.keras`: a compiled Keras model becomes an estimator, and its weights come back.

>>> import estimand as est, keras, numpy as np
>>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
>>> model.compile("sgd", "mse")
>>> estimator = est.keras.model_to_estimator(model)
>>> x = np.ones([32, 2], "float32")
>>> read = est.inputs.numpy_input_fn(x, x[:, :1], batch_size=8, num_epochs=None, shuffle=False)
>>> estimator = estimator.train(read, max_steps=10)
>>> trained = est.keras.load(estimator.model_dir)
>>> trained.predict(x, verbose=0).shape
(32, 1)
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.bridge import first_weights
from estimand.bridge.keras_model_fn import KerasModelFn
from estimand.bridge.keras_names import optimizer_name
from estimand.bridge.keras_optimizers import optimizer_maker
from estimand.bridge.keras_weights import as_checkpoint, load, note_architecture, values_by_name
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.tf_private import kerases
from estimand.engine.warm_start.settings import WarmStartSettings
from estimand.estimator.estimator import Estimator

__all__ = ["as_checkpoint", "load", "model_to_estimator"]

_log = logging.getLogger("tensorflow")


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: str | os.PathLike[str] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: str | os.PathLike[str] | None = None,
    config: RunConfig | None = None,
    checkpoint_format: str = "checkpoint",
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Any] | None = None,
    *,
    optimizer: Any = None,
    warm_start_from: Any = None,
) -> Estimator:
    """An estimator that trains, evaluates, predicts and exports a compiled Keras model.

    It starts with the weights that the model has now. The model itself is not changed by what
    the estimator does: `est.keras.load` gives the trained weights back.

    Args:
      keras_model: a compiled Keras model of any kind.
      keras_model_path: or a `.keras` or `.h5` file of one.
      custom_objects: classes and functions that the file names and Keras does not know.
      model_dir: where checkpoints and event files live.
      config: a RunConfig.
      checkpoint_format: accepted for compatibility; checkpoints are by name in any case.
      metric_names_map: new names for the metrics, by the names that Keras gives them; all of
        them.
      export_outputs: classes of `est.export`, by output, for signatures of their own.
      optimizer: instead of the one that the model was compiled with: whatever `est.minimize`
        accepts, and `est.fine_tuning.Groups`.
      warm_start_from: a checkpoint, SavedModel or WarmStartSettings to begin from instead of
        the weights of the model.

    >>> import keras
    >>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    >>> model_to_estimator(model)
    Traceback (most recent call last):
        ...
    estimand.core.errors.ConfigError: The given keras model has not been compiled yet. Please ...
    """
    from estimand.bridge.v1_in_keras import V1InKeras

    model = _the_model(keras_model, keras_model_path, custom_objects)
    if checkpoint_format not in (None, "checkpoint", "saver"):
        raise ConfigError(
            f'Checkpoint format must be one of "checkpoint" or "saver". Got {checkpoint_format}'
        )
    _check_compiled(model)
    if kerases.of(model) is kerases.KERAS2:
        return _of_keras_2(
            model,
            {"model_dir": model_dir, "config": config, "warm_start_from": warm_start_from},
            optimizer=optimizer,
            custom_objects=custom_objects,
            metric_names_map=metric_names_map,
            export_outputs=export_outputs,
        )
    chosen = model.optimizer if optimizer is None else optimizer
    model_fn = KerasModelFn(
        model,
        make_optimizer=optimizer_maker(chosen),
        averaged_by=optimizer_name(chosen) if getattr(chosen, "use_ema", False) else None,
        metric_names_map=metric_names_map,
        export_outputs=export_outputs,
        train_scope="training/" if isinstance(chosen, V1InKeras) else None,
    )
    return KerasEstimator(model_fn, model_dir, config, warm_start_from=warm_start_from)


def _of_keras_2(model: Any, of_estimator: dict[str, Any], **settings: Any) -> Estimator:
    from estimand.bridge.keras2_model_fn import Keras2ModelFn

    return KerasEstimator(Keras2ModelFn(model, **settings), **of_estimator)


class KerasEstimator(Estimator):
    """What `model_to_estimator` returns."""

    _brings_weights = True

    def __init__(self, model_fn: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(model_fn, *args, **kwargs)
        self._given_model_fn = model_fn  # also where add_metrics calls it through another
        self._starts_with_the_model = self._warm_start_settings is None
        if self._starts_with_the_model and self._config.is_chief and model_fn.first_values:
            # For who asks: the model function itself brings the values, of all variables, and
            # also after the files have been removed.
            self._warm_start_settings = WarmStartSettings(
                first_weights.kept(self.model_dir, model_fn)
            )
        note_architecture(model_fn.model, self.model_dir)

    def export_saved_model(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> bytes:
        """As of every estimator; the export also tells `est.keras.load` what the model is.

        Before any training, the weights that the model came with are exported.
        """
        from estimand.bridge.keras_weights import ARCHITECTURE

        path = os.path.join(self.model_dir, ARCHITECTURE)
        if os.path.exists(path):
            assets_extra = {ARCHITECTURE: path, **(assets_extra or {})}
        with contextlib.ExitStack() as stack:
            if self._is_untrained() and len(args) < 2 and not kwargs.get("checkpoint_path"):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                path = os.path.join(folder, "model.ckpt-0")
                kwargs["checkpoint_path"] = first_weights.write(path, self._first_values())
            return super().export_saved_model(
                export_dir_base, serving_input_receiver_fn, assets_extra, *args, **kwargs
            )

    def _is_untrained(self) -> bool:
        return (
            self._starts_with_the_model
            and self._given_model_fn.model.built
            and self.latest_checkpoint() is None
        )

    def _first_values(self) -> Mapping[str, Any]:
        given = self._given_model_fn
        return given.first_values or values_by_name(given.model)


def _the_model(
    model: Any, path: str | os.PathLike[str] | None, custom_objects: Mapping[str, Any] | None
) -> Any:
    import keras

    if model is None and not path:
        raise ConfigError("Either `keras_model` or `keras_model_path` needs to be provided.")
    if model is not None and path:
        raise ConfigError(
            "Please specity either `keras_model` or `keras_model_path`, but not both."
        )
    if path:
        where = os.fspath(path)
        if not tf.io.gfile.exists(where):
            raise ConfigError(
                f"keras_model_path={where!r}: there is no such file. Save one with "
                "model.save('model.keras')."
            )
        if kerases.current() is kerases.KERAS2:
            library = kerases.KERAS2.library()
            return library.models.load_model(where, custom_objects=dict(custom_objects or {}))
        objects = {**_loss_functions(where), **(custom_objects or {})}
        return keras.models.load_model(where, custom_objects=objects)
    known = kerases.of(model)
    if known is None or not isinstance(model, known.library().Model):
        raise ConfigError(
            f"keras_model must be a keras.Model, given: {type(model).__name__}: {model!r}."
        )
    return model


def _loss_functions(path: str) -> dict[str, Any]:
    """Losses by their short names, by which an HDF5 file has them and Keras 3 finds nothing."""
    import keras

    if not path.endswith((".h5", ".hdf5")):
        return {}
    return {name: keras.losses.get(name) for name in ("mae", "mape", "mse", "msle")}


def _check_compiled(model: Any) -> None:
    keras = (kerases.of(model) or kerases.KERAS3).library()
    compiled = getattr(model, "compiled", getattr(model, "_is_compiled", False))
    if not compiled or model.optimizer is None:
        raise ConfigError(
            "The given keras model has not been compiled yet. Please compile the model with "
            "`model.compile()` before calling `model_to_estimator()`."
        )
    if type(model).train_step is not keras.Model.train_step:
        raise ConfigError(
            f"{type(model).__name__} overrides train_step, which does its own forward pass and "
            "update; an estimator runs model.call, compute_loss and the optimizer. Override "
            "compute_loss instead, or write a model_fn for est.Estimator that calls the model."
        )
    if type(model).compute_metrics is not keras.Model.compute_metrics:
        _log.warning(
            "%s overrides compute_metrics, which the estimator does not call: it evaluates the "
            "metrics given to compile().",
            type(model).__name__,
        )
