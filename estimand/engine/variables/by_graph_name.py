"""Variables by the names that their tensors had in a graph of TensorFlow 1.

There `graph.get_tensor_by_name("dense/kernel:0")` was the value of a variable. Here variables live
outside of the graph, which reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.engine.variables import one_part


def let_find(graph: tf.Graph, variables: Mapping[str, tf.Variable]) -> None:
    """Let `graph.get_tensor_by_name` find values of variables where there is no such tensor."""
    of_graph = graph.get_tensor_by_name
    values: dict[str, Any] = {}

    def get_tensor_by_name(name: str) -> Any:
        try:
            return of_graph(name)
        except KeyError:
            found = find(name, variables)
            if found is None:
                raise
            if name not in values:
                with graph.as_default():
                    values[name] = found.read_value()
            return values[name]

    graph.get_tensor_by_name = get_tensor_by_name


def find(name: str, variables: Mapping[str, tf.Variable]) -> tf.Variable | None:
    """The variable that the name of an op or a tensor means, if any.

    >>> find("w/read:0", {"w": 1}), find("w/part_0:0", {"w": 1}), find("w/Adam:0", {"w": 1})
    (1, 1, None)
    """
    plain = name.split(":")[0]
    if plain in variables:
        return variables[plain]
    return variables.get(one_part.name_of_whole(plain))
