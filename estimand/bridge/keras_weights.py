"""From a checkpoint or an export of a converted estimator back to a Keras model, and there."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.bridge.keras_names import optimizer_name, variable_names
from estimand.core import tf_private
from estimand.core.errors import ConfigError, NoModelError
from estimand.core.files import atomic_files
from estimand.core.tf_private import kerases
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.contents import find_checkpoint
from estimand.export.loaded import reading

_log = logging.getLogger("tensorflow")

# Where the architecture of the model is kept, below a model_dir and in an export.
ARCHITECTURE = os.path.join("keras", "model.json")
_EXTRA = "assets.extra"


def load(
    path: str | os.PathLike[str] | bytes,
    model: Any = None,
    custom_objects: Mapping[str, Any] | None = None,
) -> Any:
    """A Keras model with the weights of a converted estimator.

    If the optimizer's state is there as well, and `model` is compiled, `fit` goes on with it.

    Args:
      path: a model_dir, of which the newest checkpoint is taken, a checkpoint, or an export.
      model: the Keras model to fill. None: made from what `model_to_estimator` noted, which is
        possible for models that Keras can save.
      custom_objects: classes and functions of the model that Keras does not know.

    >>> load("/nowhere")
    Traceback (most recent call last):
        ...
    estimand.core.errors.NoCheckpointError: There is no checkpoint at /nowhere. ...
    """
    where = os.fsdecode(path)
    checkpoint = find_checkpoint(_newest_version(where))
    if model is None:
        model = _from_architecture(where, checkpoint, custom_objects)
    if kerases.of(model) is kerases.KERAS2:
        return _fill_keras_2(model, checkpoint, custom_objects)
    if not model.built or not model.variables:
        raise ConfigError(
            f"The Keras model {model.name!r} has no variables yet to load weights into. Call it "
            "once on a batch, or build it: model.build(input_shape)."
        )
    with tf_private.eager_mode():
        names = variable_names(model)
        stored = set(tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map())
        _fill(model.variables, _averages(names, stored), stored, checkpoint)
        _fill_optimizer(model, names, stored, checkpoint)
        _let_layers_know(model)
    return model


def _fill_keras_2(model: Any, checkpoint: str, custom_objects: Mapping[str, Any] | None) -> Any:
    from estimand.bridge.keras2_model_fn import maker, values_by_name

    there = values_by_name(model, maker(model, custom_objects))
    if not there:
        raise ConfigError(
            f"The Keras 2 model {model.name!r} has no variables yet to load weights into. Call it "
            "once on a batch, or build it: model.build(input_shape)."
        )
    wanted = [
        checkpoints.Wanted(name, tf.as_dtype(value.dtype), value.shape)
        for name, value in there.items()
    ]
    with tf_private.eager_mode():
        model.set_weights([v.numpy() for v in checkpoints.read_tensors(checkpoint, wanted)])
    return model


def _newest_version(where: str) -> str:
    """An export itself also where the folder of its versions is given."""
    if os.path.isdir(where) and checkpoints.latest_checkpoint(where) is None:
        try:
            return reading.find_version(where)
        except NoModelError:
            pass
    return where


def _averages(names: list[str], stored: set[str]) -> list[str]:
    """Where an optimizer keeps averages of weights, those are what the estimator predicts with."""
    ending = "_average"
    averages = {n.partition("/")[2][: -len(ending)]: n for n in stored if n.endswith(ending)}
    return [averages.get(name.replace("/", "_"), name) for name in names]


def _fill(variables: list[Any], names: list[str], stored: set[str], checkpoint: str) -> None:
    # Random layers draw nothing when a model is exported: what they draw from is not there.
    pairs = [
        (variable, name)
        for variable, name in zip(variables, names, strict=True)
        if variable.name != "seed_generator_state" or name in stored
    ]
    wanted = [
        checkpoints.Wanted(name, v.value.dtype, tuple(v.value.shape.as_list())) for v, name in pairs
    ]
    values = checkpoints.read_tensors(checkpoint, wanted)
    for (variable, _), value in zip(pairs, values, strict=True):
        variable.assign(value)


def _let_layers_know(model: Any) -> None:
    """Normalization computes what it works with from its weights, but only when told to."""
    import keras

    for layer in tf_private.keras_layers(model):
        if isinstance(layer, keras.layers.Normalization) and layer.built:
            layer.finalize_state()


def _fill_optimizer(model: Any, names: list[str], stored: set[str], checkpoint: str) -> None:
    """The optimizer's state, where all of it is there."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    renamed = {
        v.path.replace("/", "_"): name.replace("/", "_")
        for v, name in zip(model.variables, names, strict=True)
    }
    parts = [optimizer, getattr(optimizer, "inner_optimizer", None)]
    owners = {
        optimizer.name: optimizer_name(optimizer) for optimizer in parts if optimizer is not None
    }
    state = [
        f"{owners[v.path.partition('/')[0]]}/{_state_name(v.name, renamed)}"
        for v in optimizer.variables
    ]
    if stored.issuperset(state):
        _fill(list(optimizer.variables), state, stored, checkpoint)


def _state_name(name: str, renamed: Mapping[str, str]) -> str:
    """`dense_3_kernel_momentum`, as it is called where dense_3 is called otherwise."""
    for old in sorted(renamed, key=len, reverse=True):
        if name.startswith(f"{old}_"):
            return f"{renamed[old]}{name[len(old) :]}"
    return name


# ------------------------------------------------------------------ the architecture


def note_architecture(model: Any, model_dir: str) -> None:
    """Keep what the model is beside its checkpoints, if Keras can say it."""
    try:
        text = model.to_json()
    except Exception as error:  # custom layers raise whatever they like
        _log.info("est.keras.load will need its argument `model`: %s", error)
        return
    path = os.path.join(model_dir, ARCHITECTURE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    atomic_files.replace_text(path, text)


def _from_architecture(
    where: str, checkpoint: str, custom_objects: Mapping[str, Any] | None
) -> Any:
    keras = kerases.current().library()

    import estimand.bridge.v1_in_keras  # noqa: F401  (Keras then knows its optimizer)

    folder = os.path.dirname(checkpoint)
    places = [
        os.path.join(folder, ARCHITECTURE),
        os.path.join(os.path.dirname(folder), _EXTRA, ARCHITECTURE),
    ]
    path = next((place for place in places if os.path.exists(place)), None)
    if path is None:
        raise ConfigError(
            f"est.keras.load({where!r}): what the model is was not noted there (its config could "
            "not be saved, or the weights are not of est.keras.model_to_estimator). Give the "
            "model to fill: est.keras.load(path, model)."
        )
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        return keras.models.model_from_json(text, custom_objects=dict(custom_objects or {}))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"est.keras.load({where!r}): Keras cannot make the model of {path} again ({error}). "
            "Name its own classes in custom_objects={...}, or give the model to fill."
        ) from error


# ------------------------------------------------------------------ the other way


def as_checkpoint(
    model: Any,
    directory: str | os.PathLike[str],
    *,
    step: int = 0,
    custom_objects: Mapping[str, Any] | None = None,
) -> str:
    """Write the weights of a Keras model as a checkpoint by name; returns its path.

    To start another model from it: `est.Estimator(..., warm_start_from=path)`.

    Args:
      model: a built Keras model, or a `.keras` or `.h5` file of one.
      directory: the checkpoint becomes `model.ckpt-<step>` in it.
      step: its global step.
      custom_objects: for a file, classes and functions that Keras does not know.

    >>> import keras, tempfile
    >>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, name="score")])
    >>> path = as_checkpoint(model, tempfile.mkdtemp())
    >>> [name for name, _ in tf.train.list_variables(path)]
    ['global_step', 'score/bias', 'score/kernel']
    """
    if isinstance(model, (str, os.PathLike)):
        keras = kerases.current().library()
        objects = dict(custom_objects or {})
        model = keras.models.load_model(model, custom_objects=objects, compile=False)
    folder = os.fspath(directory)
    os.makedirs(folder, exist_ok=True)
    with tf_private.eager_mode():
        entries = [checkpoints.Entry(*pair) for pair in values_by_name(model).items()]
        entries.append(checkpoints.Entry("global_step", tf.constant(np.int64(step))))
        with checkpoints.CheckpointWriter(folder) as writer:
            return writer.save(step, entries, synchronous=True)


def values_by_name(model: Any) -> dict[str, tf.Tensor]:
    """The weights that a model has now, by their names in an estimator."""
    with tf_private.eager_mode():
        if kerases.of(model) is kerases.KERAS2:
            from estimand.bridge import keras2_model_fn as keras2

            values = keras2.values_by_name(model, keras2.maker(model, None))
            return {name: tf.constant(value) for name, value in values.items()}
        names = variable_names(model)
        return {n: v.value.read_value() for n, v in zip(names, model.variables, strict=True)}
