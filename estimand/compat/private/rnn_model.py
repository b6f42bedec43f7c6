"""`canned.rnn.RNNModel`: the Keras model inside of recurrent estimators, to be used by itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.canned.rnn import _with_context
from estimand.core.errors import ConfigError
from estimand.core.tf_private import feature_columns as columns_lib
from estimand.features.keras_layers import DenseFeatures, SequenceFeatures

_keras = tf.keras


class RNNModel(_keras.Model):  # type: ignore[name-defined, misc]
    """Sequence columns, a recurrent layer, a dense layer for the logits."""

    def __init__(
        self,
        rnn_layer: Any,
        units: int,
        sequence_feature_columns: Any,
        context_feature_columns: Any = None,
        activation: Any = None,
        return_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_layer(rnn_layer)
        self._rnn_layer = rnn_layer
        self._sequence_layer = SequenceFeatures(list(sequence_feature_columns))
        self._context_layer = None
        if context_feature_columns:
            self._context_layer = DenseFeatures(list(context_feature_columns))
        self._logits_layer = _keras.layers.Dense(units, activation=activation, name="logits")
        self._return_sequences = return_sequences
        self._columns = (sequence_feature_columns, context_feature_columns)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Logits: [batch, units], or of each step with `return_sequences`."""
        sequence, lengths = self._sequence_layer(inputs)
        if self._context_layer is not None:
            sequence = _with_context(sequence, self._context_layer(inputs))
        mask = tf.sequence_mask(lengths, maxlen=tf.shape(sequence)[1])
        encoded = self._rnn_layer(sequence, mask=mask, training=training)
        return self._logits_layer(encoded)

    def get_config(self) -> dict[str, Any]:
        sequence, context = self._columns
        return {
            "name": self.name,
            "rnn_layer": _keras.layers.serialize(self._rnn_layer),
            "units": self._logits_layer.units,
            "activation": _keras.activations.serialize(self._logits_layer.activation),
            "return_sequences": self._return_sequences,
            "sequence_feature_columns": columns_lib.columns_to_config(list(sequence)),
            "context_feature_columns": columns_lib.columns_to_config(list(context or ())),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> RNNModel:
        config = dict(config)
        layer = config.pop("rnn_layer")
        for name in ("sequence_feature_columns", "context_feature_columns"):
            config[name] = columns_lib.columns_from_config(config[name])
        return cls(_keras.layers.deserialize(layer, custom_objects), **config)


def _check_layer(layer: Any) -> None:
    if not isinstance(layer, _keras.layers.Layer):
        raise ConfigError(
            "RNNModel should be passed a layer that inherits from keras.layers.Layer. "
            f"Given: {layer!r}; make one with keras.layers.RNN(cell)."
        )
