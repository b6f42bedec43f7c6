"""What a model function asks for when it makes a variable: under which name, of which kind."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.tf_private import kerases

_Keys = tf.compat.v1.GraphKeys
_LARGE = 64 * 2**20  # bytes
# An optimizer applied inside `tf.cond` makes its scalars there; v1 graphs named them without.
_CONTROL_FLOW_SCOPE = re.compile(r"^((cond|while)(_\d+)?/)+")


@dataclass(frozen=True)
class RequestedVariable:
    """One variable, as it is asked for here and now.

    Args:
      name: as v1 graph code would have called it.
      keras_variable: of Keras 3, which is making it for itself; None: somebody else.
      of_keras: a layer, an optimizer or a metric of Keras, 2 or 3, makes it.
      collections: those of the graph that it joins.
      arguments: what TensorFlow's creators of variables are given.
    """

    name: str
    keras_variable: Any
    of_keras: bool
    trainable: bool
    collections: list[str]
    arguments: dict[str, Any]

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> RequestedVariable:
        keras_variable, of_metric = tf_private.keras_variable_being_created()
        of_keras = keras_variable is not None
        if not of_keras:
            of_keras, of_metric = kerases.keras_2_is_creating()
        collections = list(arguments.get("collections") or [_Keys.GLOBAL_VARIABLES])
        trainable = arguments.get("trainable")
        trainable = True if trainable is None else bool(trainable)
        if of_metric:
            collections, trainable = [_Keys.LOCAL_VARIABLES, _Keys.METRIC_VARIABLES], False
        name = _name(arguments.get("name")) if keras_variable is None else keras_variable.path
        return cls(name, keras_variable, of_keras, trainable, collections, arguments)

    @property
    def is_local(self) -> bool:
        return _Keys.GLOBAL_VARIABLES not in self.collections

    @property
    def shape(self) -> Any:
        """As far as it is known before the initial value is; None: not at all."""
        shape = self.arguments.get("shape")
        if shape is None:
            shape = getattr(self.keras_variable, "_shape", None)
        if shape is None and not callable(self.arguments.get("initial_value")):
            shape = getattr(self.arguments["initial_value"], "shape", None)
        return shape

    @property
    def is_large(self) -> bool:
        """Whether it is better not made if nobody reads it."""
        shape = tf.TensorShape(self.arguments.get("shape"))
        dtype = self.arguments.get("dtype")
        known = shape.is_fully_defined() and dtype is not None
        return known and shape.num_elements() * tf.as_dtype(dtype).size > _LARGE

    def check_is(self, name: str, variable: tf.Variable) -> None:
        """That a variable which another trace made is the one that is asked for."""
        shape = self.shape
        if shape is not None and not tf.TensorShape(shape).is_compatible_with(variable.shape):
            raise ModelFnError(
                f"Variable {name!r} has shape {tuple(variable.shape)} in this estimator, but the "
                f"model function now asks for {tuple(tf.TensorShape(shape).as_list())}. All modes "
                "must build the same variables; give different variables different names."
            )


def unique(name: str, taken: Container[str]) -> str:
    """`name`, with a number behind it if it is taken."""
    if name not in taken:
        return name
    count = 1
    while f"{name}_{count}" in taken:
        count += 1
    return f"{name}_{count}"


def _name(asked: str | None) -> str:
    """The name that an op of this name gets here and now, as a v1 variable handle would."""
    with tf.compat.v1.name_scope(asked, "Variable") as scope:
        name = scope.rstrip("/")
    return name if tf_private.get_variable_is_creating() else _CONTROL_FLOW_SCOPE.sub("", name)
