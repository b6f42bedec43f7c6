"""What the layers of `tf.contrib.layers` with weights and biases have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.variables import (
    add_model_variable,
    model_variable,
)
from estimand.compat.v1.contrib_modules.layers import utils
from estimand.compat.v1.contrib_modules.layers.initializers import xavier_initializer

v1 = tf.compat.v1
CHANNELS_LAST = (None, "NHWC", "NWC", "NDHWC")


@dataclass(kw_only=False)
class LayerArguments:
    """Arguments in contrib's order, and what they do; `biases_initializer=None` means no bias."""

    activation_fn: Any = tf.nn.relu
    normalizer_fn: Any = None
    normalizer_params: dict[str, Any] | None = None
    weights_initializer: Any = None
    weights_regularizer: Any = None
    biases_initializer: Any = field(default_factory=v1.zeros_initializer)
    biases_regularizer: Any = None
    reuse: Any = None
    variables_collections: Any = None
    outputs_collections: Any = None
    trainable: bool = True
    scope: Any = None

    def opened(self, default: str, inputs: Any) -> Any:
        """The scope of the layer's variables."""
        return v1.variable_scope(self.scope, default, [inputs], reuse=self.reuse)

    def variable(self, name: str, shape: Any, dtype: Any, initializer: Any, penalty: Any) -> Any:
        return model_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=penalty,
            trainable=self.trainable,
            collections=utils.get_variable_collections(self.variables_collections, name),
        )

    def weights(self, shape: Any, dtype: Any, name: str = "weights") -> Any:
        made = self.weights_initializer or xavier_initializer()
        return self.variable(name, shape, dtype, made, self.weights_regularizer)

    def finished(self, outputs: Any, here: Any, data_format: str | None = None) -> tf.Tensor:
        """A normalizer or biases, and then the activation."""
        last = data_format in CHANNELS_LAST
        if self.normalizer_fn is not None:
            outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
        elif self.biases_initializer is not None:
            size = tf.compat.dimension_value(outputs.shape[-1 if last else 1])
            biases = self.variable(
                "biases", [size], outputs.dtype, self.biases_initializer, self.biases_regularizer
            )
            outputs = tf.nn.bias_add(outputs, biases, None if last else "NC...")
        return self.activated(outputs, here)

    def activated(self, outputs: Any, here: Any) -> tf.Tensor:
        if self.activation_fn is not None:
            outputs = self.activation_fn(outputs)
        return utils.collect_named_outputs(self.outputs_collections, here.name, outputs)

    def own(self, variables: Iterable[Any]) -> None:
        """Variables that a layer of `tf.layers` has made."""
        for variable in variables:
            add_model_variable(variable)
            name = (
                variable.op.name.rpartition("/")[2] if not tf.executing_eagerly() else variable.name
            )
            for collection in (
                utils.get_variable_collections(self.variables_collections, name) or ()
            ):
                v1.add_to_collection(collection, variable)
