"""The store of variables by itself: names, sharing between traces, and where values came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.errors import ModelFnError
from estimand.engine.variables.store import VariableStore
from estimand.engine.variables.traced_variables import TracedVariables

v1 = tf.compat.v1


def traced(store: VariableStore, build: Callable[[], Any]) -> TracedVariables:
    """The variables that `build` makes or reads, built as a model function is."""
    variables: list[TracedVariables] = []

    def function() -> list[tf.Tensor]:
        with store.tracing(v1.get_default_graph()) as made:
            build()
            store.adopt_foreign(made)
        variables.append(made)
        return []

    v1.wrap_function(function, [])
    return variables[0]


def test_variable_is_made_once_and_found_by_its_name_later() -> None:
    store = VariableStore()
    first = traced(store, lambda: v1.get_variable("w", [2]))
    second = traced(store, lambda: v1.get_variable("w", [2]))
    assert first.by_name["w"] is second.by_name["w"]
    assert [v.name for v in store.variables()] == ["w:0"]


def test_names_are_those_of_a_v1_graph() -> None:
    def build() -> None:
        with v1.variable_scope("net"):
            v1.get_variable("w", [2])
            v1.Variable(1.0)
            v1.Variable(1.0)

    names = traced(VariableStore(), build).by_name
    assert list(names) == ["net/w", "net/Variable", "net/Variable_1"]


def test_local_variables_belong_to_their_trace() -> None:
    def build() -> None:
        v1.get_variable("count", [], collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)

    store = VariableStore()
    first, second = traced(store, build), traced(store, build)
    assert first.local["count"] is not second.local["count"]
    assert store.variables() == [] and first.saved() == {}


def test_another_shape_under_the_same_name_is_told() -> None:
    store = VariableStore()
    traced(store, lambda: v1.get_variable("w", [2]))
    with pytest.raises(ModelFnError, match=r"'w' has shape \(2,\).*now asks for \(3,\)"):
        traced(store, lambda: v1.get_variable("w", [3]))


def test_variable_made_outside_is_taken_in_when_it_is_read() -> None:
    outside = tf.Variable([1.0, 2.0], name="outside")
    store = VariableStore()
    assert traced(store, outside.read_value).by_name["outside"] is outside
    assert store.made_outside() == {id(outside)}


def test_store_knows_which_values_are_a_checkpoints() -> None:
    store = VariableStore()
    traced(store, lambda: v1.get_variable("w", [2]))
    origins = {"w": "model.ckpt-5#w"}
    assert store.not_from(origins) == {"w"}
    store.mark_loaded(origins)
    assert store.not_from(origins) == set() and not store.only_in_memory
    before = store.changes
    store.mark_changed()
    assert store.not_from(origins) == {"w"} and store.only_in_memory and store.changes > before
