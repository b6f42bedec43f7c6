"""From what a user gives as `optimizer` to an optimizer that makes train ops."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.adagrad import Adagrad
from estimand.canned.optimizers.adam import Adam
from estimand.canned.optimizers.base import LegacyOptimizer
from estimand.canned.optimizers.ftrl import Ftrl
from estimand.canned.optimizers.rmsprop import RMSprop
from estimand.canned.optimizers.sgd import SGD
from estimand.canned.optimizers.v1 import V1Naming, V1Optimizer
from estimand.core.errors import ConfigError
from estimand.core.tf_private import kerases
from estimand.engine.variables.traced_variables import is_traced, traced_variables

_V1 = tf.compat.v1.train

BY_NAME: dict[str, type[LegacyOptimizer]] = {
    "Adagrad": Adagrad,
    "Adam": Adam,
    "Ftrl": Ftrl,
    "RMSProp": RMSprop,
    "SGD": SGD,
}
V1_BY_NAME = {
    "Adagrad": _V1.AdagradOptimizer,
    "Adam": _V1.AdamOptimizer,
    "Ftrl": _V1.FtrlOptimizer,
    "RMSProp": _V1.RMSPropOptimizer,
    "SGD": _V1.GradientDescentOptimizer,
}
# What a Keras optimizer may be told that ours cannot do: with any of these it stays what it is.
_BEYOND_US = (
    "weight_decay",
    "use_ema",
    "loss_scale_factor",
    "gradient_accumulation_steps",
)
_KINDS = {kind.__name__: kind for kind in BY_NAME.values()}
_SHARED_ARGUMENTS = ("clipnorm", "clipvalue", "global_clipnorm")


def choose_optimizer(
    given: Any, learning_rate: float | None = None, naming: V1Naming | None = None
) -> Any:
    """An optimizer for `estimand.engine.minimize.minimize`.

    `learning_rate` is for optimizers given by name; without it their own default holds. `naming`
    is how a v1 optimizer names its state in this model's checkpoints.

    >>> choose_optimizer("Ftrl", 0.2)
    Ftrl(learning_rate=0.2)
    >>> choose_optimizer("Adagrad")
    Adagrad(learning_rate=0.001)
    """
    if isinstance(given, str):
        kind = _named(given, BY_NAME)
        return kind(learning_rate=learning_rate) if learning_rate else kind()
    return _instance(given, naming)


def choose_v1_optimizer(given: Any, learning_rate: float, naming: V1Naming) -> Any:
    """The same with the optimizers that `tf.compat.v1.estimator` meant by these names."""
    if isinstance(given, str):
        given = _named(given, V1_BY_NAME)(learning_rate=learning_rate)
    return _instance(given, naming)


def for_many_models(given: Any) -> Any:
    """What to keep of an optimizer that a user gives: a Keras one, once built, serves one model.

    So an instance that is used as it is becomes a function that makes another like it. To be
    called outside of the model function, where the variable of the rate can be read.
    """
    if not _is_optimizer(given) or isinstance(given, (type, _V1.Optimizer, LegacyOptimizer)):
        return given
    if not _stays_itself(given) or not hasattr(given, "get_config"):
        return given
    kind, settings = type(given), given.get_config()
    if "learning_rate" in settings:
        settings["learning_rate"] = (kerases.of(given) or kerases.KERAS3).learning_rate(given)
    return lambda: kind.from_config(dict(settings))


def _named(name: str, known: Mapping[str, Any]) -> Any:
    by_any_case = {name.lower(): kind for name, kind in known.items()}
    if name.lower() not in by_any_case:
        raise ConfigError(
            f"Unsupported optimizer name: {name}. Supported names are: {tuple(sorted(known))}, in "
            "any case. For others give the optimizer itself: a Keras one such as "
            "keras.optimizers.AdamW(1e-3), or one of tf.compat.v1.train."
        )
    return by_any_case[name.lower()]


def _instance(given: Any, naming: V1Naming | None) -> Any:
    if callable(given) and not _is_optimizer(given):
        given = given()
        if isinstance(given, str):
            return choose_optimizer(given)
    if isinstance(given, _V1.Optimizer):
        return V1Optimizer(given, naming or V1Naming())
    if not _is_optimizer(given) or isinstance(given, type):
        raise ConfigError(
            "The given object is not a tf.keras.optimizers.Optimizer instance. "
            f"Given: {given!r}. Pass a name ({', '.join(BY_NAME)}), an optimizer such as "
            "keras.optimizers.Adam(1e-3) or tf.compat.v1.train.AdamOptimizer(1e-3), or a "
            "function without arguments that returns one."
        )
    return _ours(given)


def _is_optimizer(given: Any) -> bool:
    if isinstance(given, (_V1.Optimizer, LegacyOptimizer)):
        return True
    if isinstance(given, type):
        return False
    return callable(getattr(given, "apply", None)) or kerases.is_optimizer(given)


def _ours(given: Any) -> Any:
    """Our optimizer for a Keras one of the same kind, so that checkpoints keep their names.

    Others, and those with settings that Keras 2 did not have, are used as they are.
    """
    if isinstance(given, LegacyOptimizer) or _stays_itself(given):
        return given
    kind = _KINDS[type(given).__name__]
    names = [*inspect.signature(kind).parameters, *_SHARED_ARGUMENTS]
    keras = kerases.of(given) or kerases.KERAS3
    settings = {n: keras.setting(given, n) for n in names if n != "learning_rate"}
    arguments = {n: value for n, value in settings.items() if value is not None}
    arguments["learning_rate"] = keras.learning_rate(given)
    if decay := keras.setting(given, "decay"):
        arguments["decay"] = decay
    # Keras 3 calls them adagrad, adagrad_1, rm_sprop, …: that is no choice of the user's.
    plain = re.sub(r"_\d+$", "", str(arguments.get("name", ""))).replace("_", "")
    if plain.lower() == kind.__name__.lower():
        del arguments["name"]
    _leave_out_of_checkpoints(given)
    return kind(**arguments)


def _stays_itself(given: Any) -> bool:
    unknown = type(given).__name__ not in _KINDS
    return unknown or any(getattr(given, setting, None) for setting in _BEYOND_US)


def _leave_out_of_checkpoints(given: Any) -> None:
    """A Keras optimizer that was made inside the model function has left variables there."""
    graph = tf.compat.v1.get_default_graph()
    if is_traced(graph):
        keras = kerases.of(given) or kerases.KERAS3
        traced_variables(graph).forget(keras.variables(given))
