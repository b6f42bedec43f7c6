"""`est.fine_tuning`: train some variables and not others, and some more carefully than others.

Names are those that the variables have in a checkpoint; patterns are regular expressions that
may match anywhere in a name, so `"^base/"` means the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.bridge.keras_optimizers import optimizer_maker
from estimand.core import tf_private
from estimand.core.errors import ConfigError, ModelFnError
from estimand.engine.variables.traced_variables import is_traced, traced_variables

__all__ = ["Groups", "freeze", "trainable_variables", "unfreeze"]

_MOST_NAMES = 10


def freeze(model: Any, *layers: Any) -> list[str]:
    """Take layers of a Keras model out of training; returns the names of those it found.

    Compile the model afterwards, as always when `trainable` changes.

    Args:
      model: a Keras model.
      *layers: patterns for the names of layers at any depth, or layers. None given: all.

    >>> import keras
    >>> model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3, name="base_1"),
    ...                           keras.layers.Dense(2, name="base_2"),
    ...                           keras.layers.Dense(1, name="score")])
    >>> freeze(model, "^base_")
    ['base_1', 'base_2']
    >>> [variable.path.split("/")[-2] for variable in model.trainable_variables]
    ['score', 'score']
    """
    return _set_trainable(model, layers, False, "freeze")


def unfreeze(model: Any, *layers: Any) -> list[str]:
    """The other way round; a layer inside of a frozen model frees that model, too.

    >>> import keras
    >>> model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3), keras.layers.Dense(1)])
    >>> _ = freeze(model)
    >>> unfreeze(model, model.layers[-1]) == [model.layers[-1].name]
    True
    >>> len(model.trainable_variables)
    2
    """
    if layers:
        # `trainable` of a model is that of all it holds: set one by one, not from above.
        chosen = _chosen(model, layers, "unfreeze")
        outer = [
            layer for layer in (model, *tf_private.keras_layers(model)) if _holds(layer, chosen)
        ]
        others = [layer for layer in _leaves(model) if not layer.trainable]
        for layer in outer:
            layer.trainable = True
        for layer in others:
            layer.trainable = False
    return _set_trainable(model, layers, True, "unfreeze")


def _holds(layer: Any, chosen: Sequence[Any]) -> bool:
    if not getattr(layer, "layers", None):
        return False
    inside = {id(inner) for inner in tf_private.keras_layers(layer)}
    return any(id(layer) in inside for layer in chosen)


def _leaves(model: Any) -> list[Any]:
    layers = tf_private.keras_layers(model)
    return [layer for layer in layers if not tf_private.keras_layers(layer)]


def _set_trainable(model: Any, layers: Sequence[Any], value: bool, where: str) -> list[str]:
    if not layers:
        model.trainable = value
        return [layer.name for layer in model.layers]
    chosen = _chosen(model, layers, where)
    for layer in chosen:
        layer.trainable = value
    return [layer.name for layer in chosen]


def _chosen(model: Any, wanted: Sequence[Any], where: str) -> list[Any]:
    known = tf_private.keras_layers(model)
    chosen: list[Any] = []
    for asked in wanted:
        if isinstance(asked, str):
            matching = [layer for layer in known if re.search(asked, layer.name)]
        else:
            matching = [layer for layer in known if layer is asked]
        if not matching:
            raise ConfigError(
                f"est.fine_tuning.{where}: no layer of {model.name!r} is {asked!r}. Its layers: "
                f"{_some(layer.name for layer in known)}."
            )
        chosen += [layer for layer in matching if not any(layer is taken for taken in chosen)]
    # In the order of the model.
    return [layer for layer in known if any(layer is taken for taken in chosen)]


def trainable_variables(*patterns: str, exclude: str | Sequence[str] = ()) -> list[tf.Variable]:
    """Inside a model function: the trainable variables made so far that match a pattern.

    For the last argument of `est.minimize`, or the `var_list` of a v1 optimizer.

    Args:
      exclude: patterns of those to leave out.

    >>> import estimand as est
    >>> def model_fn(features, labels, mode):
    ...     import keras
    ...     hidden = keras.layers.Dense(8, name="base")(features["x"])
    ...     loss = tf.reduce_mean(tf.square(keras.layers.Dense(1, name="head")(hidden) - labels))
    ...     only_head = est.fine_tuning.trainable_variables("^head/")
    ...     train_op = est.minimize(keras.optimizers.Adam(0.01), loss, only_head)
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=train_op)
    """
    graph = tf.compat.v1.get_default_graph()
    if not is_traced(graph):
        raise ModelFnError(
            "est.fine_tuning.trainable_variables was called outside of a model function, where "
            "no variables are being made. Call it inside model_fn."
        )
    excluded = [exclude] if isinstance(exclude, str) else exclude
    named = {
        name: variable
        for name, variable in traced_variables(graph).by_name.items()
        if variable.trainable
    }
    chosen = {
        name: variable
        for name, variable in named.items()
        if (not patterns or _matches(name, patterns)) and not _matches(name, excluded)
    }
    if not chosen:
        raise ModelFnError(
            f"No trainable variable matches {', '.join(map(repr, patterns)) or 'what is asked'}"
            f"{f' without {exclude!r}' if exclude else ''}. There are: {_some(named) or 'none'}."
        )
    return list(chosen.values())


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = f", … and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more


class Groups:
    """An optimizer made of several, each for the variables that match its pattern.

    The gradients are computed once. For `est.minimize` and `model_to_estimator(optimizer=...)`.

    Args:
      groups: pattern -> optimizer; the first pattern that matches a name counts. None instead of
        an optimizer leaves those variables as they are.

    >>> import keras
    >>> groups = Groups({"^base/": keras.optimizers.SGD(1e-4), ".": keras.optimizers.Adam(1e-3)})
    >>> groups.pattern_of("base/conv/kernel")
    '^base/'
    """

    def __init__(self, groups: Mapping[str, Any]) -> None:
        if not groups or all(optimizer is None for optimizer in groups.values()):
            raise ConfigError(
                f"est.fine_tuning.Groups got {dict(groups)!r}: no optimizer. Give a dict such as "
                "{'^base/': keras.optimizers.SGD(1e-4), '.': keras.optimizers.Adam(1e-3)}."
            )
        self._optimizers = dict(groups)
        self.built = False

    def maker(self) -> Callable[[], Groups]:
        """A function that gives the same groups with optimizers from the beginning."""
        makers = {p: o if o is None else optimizer_maker(o) for p, o in self._optimizers.items()}
        return lambda: Groups({p: m if m is None else m() for p, m in makers.items()})

    def pattern_of(self, name: str) -> str:
        """The pattern that decides about a variable."""
        for pattern in self._optimizers:
            if re.search(pattern, name):
                return pattern
        raise ConfigError(
            f"est.fine_tuning.Groups has no pattern for the variable {name!r}; its patterns: "
            f"{', '.join(map(repr, self._optimizers))}. Add '.' as the last, for all others; with "
            "None, to leave them as they are."
        )

    # What est.minimize asks of an optimizer.

    def build(self, variables: Sequence[Any]) -> None:
        """Make the state of all optimizers."""
        for pattern, members in self._divided(variables).items():
            optimizer = self._optimizers[pattern]
            if hasattr(optimizer, "build"):
                optimizer.build(members)
        self.built = True

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Let every optimizer update its variables."""
        if not self.built:
            self.build(variables)
        by_id = {id(v): g for g, v in zip(gradients, variables, strict=True)}
        for pattern, members in self._divided(variables).items():
            optimizer = self._optimizers[pattern]
            mine = [by_id[id(v)] for v in members]
            if isinstance(optimizer, tf.compat.v1.train.Optimizer):
                plain = [getattr(v, "value", v) if _is_keras(v) else v for v in members]
                optimizer.apply_gradients(list(zip(mine, plain, strict=True)))
            else:
                optimizer.apply(mine, members)

    def _divided(self, variables: Sequence[Any]) -> dict[str, list[Any]]:
        """The variables of each optimizer; those without one are left out."""
        result: dict[str, list[Any]] = {}
        for variable in variables:
            pattern = self.pattern_of(_name(variable))
            if self._optimizers[pattern] is not None:
                result.setdefault(pattern, []).append(variable)
        return result


def _is_keras(variable: Any) -> bool:
    return not isinstance(variable, tf.Variable)


def _name(variable: Any) -> str:
    return variable.path if _is_keras(variable) else variable.name.split(":")[0]
