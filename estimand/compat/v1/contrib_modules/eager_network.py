"""`tf.contrib.eager.Network`: a Keras model whose layers are told by `track_layer`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Network(tf.keras.Model):
    """Subclasses track layers in `__init__` and compute in `call`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name)
        self._tracked_layers: list[Any] = []

    def track_layer(self, layer: Any) -> Any:
        """Make a layer's variables the network's; returns the layer."""
        self._tracked_layers = [*self._tracked_layers, layer]
        return layer


class Sequential(Network):
    """Layers, or functions, one after the other."""

    def __init__(self, layers_funcs: Any = None, name: str | None = None) -> None:
        super().__init__(name)
        self._steps: list[Any] = []
        for layer in layers_funcs or ():
            self.add(layer)

    def add(self, layer_func: Any) -> None:
        if not callable(layer_func):
            raise TypeError(
                f"Sequential.add takes only layers and functions, given {layer_func!r}."
            )
        self._steps = [*self._steps, layer_func]

    def call(self, inputs: Any) -> Any:
        for step in self._steps:
            inputs = step(inputs)
        return inputs
