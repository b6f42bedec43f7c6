"""One model in this process: who shares its traces and variables, and who parts from them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelBusyError
from estimand.engine.live_model import LiveModel
from estimand.engine.tracing.trace import Trace
from tests import line
from tests.line import v1

LABELS = tf.TensorSpec([None])


def live(function: Any = line.model_fn) -> LiveModel:
    return LiveModel(function, v1.train.create_global_step)


def traced(model: LiveModel, mode: str = "train", *, rows: int | None = None) -> Trace:
    return model.trace(mode, ({"x": tf.TensorSpec([rows])}, LABELS), seed=1)


def evaluated(trace: Trace) -> float:
    """The loss at x = 2, y = 0, which is (2 w)², computed as an evaluation does."""
    with trace.usage:
        [loss] = trace.prune([trace.spec.loss], trace.inputs)(tf.constant([2.0]), tf.zeros([1]))
    return float(loss)


# Traces


def test_model_function_is_called_once_for_each_kind_of_batch() -> None:
    called = []

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        called.append((mode, features["x"].shape[0]))
        return line.model_fn(features, labels, mode)

    model = live(model_fn)
    assert traced(model) is traced(model)
    assert traced(model, rows=2) is not traced(model, "eval", rows=2)
    assert called == [("train", None), ("train", 2), ("eval", 2)]
    assert len(model.graphs()) == 3


def test_modes_share_their_variables() -> None:
    model = live()
    training, evaluation = traced(model), traced(model, "eval")
    training.variables.by_name["w"].assign(3.0)
    assert evaluated(evaluation) == 36.0


def test_of_many_kinds_the_one_that_was_used_longest_ago_is_dropped() -> None:
    model = live()
    first, second = traced(model, rows=1), traced(model, rows=2)
    for rows in (3, 4):
        traced(model, rows=rows)
    assert traced(model, rows=1) is first
    traced(model, rows=5)
    assert traced(model, rows=1) is first
    assert traced(model, rows=2) is not second


def test_program_of_a_trace_is_made_once_as_long_as_the_trace_is_kept() -> None:
    model = live()
    trace = traced(model)
    program = model.program(trace, "steps", object)
    assert model.program(trace, "steps", object) is program
    assert model.program(trace, "others", object) is not program
    model.drop(trace)
    assert model.program(trace, "steps", object) is not model.program(trace, "steps", object)
    assert traced(model) is not trace


def test_forgotten_model_begins_with_new_variables() -> None:
    model = live()
    trace = traced(model)
    trace.variables.by_name["w"].assign(3.0)
    model.forget_if(False)
    assert traced(model) is trace
    model.forget_if(True)
    assert traced(model).variables.by_name["w"].numpy() == 1.0
    assert trace.variables.by_name["w"].numpy() == 3.0


@pytest.mark.parametrize("was_traced", [False, True])
def test_input_is_seeded_whether_or_not_there_is_a_trace(was_traced: bool) -> None:
    model = live()
    if was_traced:
        traced(model)
    drawn = []
    for seed in (4, 4, 5):
        model.seed_input("train", seed)
        drawn.append(next(iter(tf.data.Dataset.random().take(1))).numpy())
    assert drawn[0] == drawn[1] != drawn[2]


# Readers and the one who trains


def test_model_is_trained_by_one_call_at_a_time() -> None:
    model = live()
    with model.training():
        assert model.is_trained and model.is_trained_here
        with pytest.raises(ModelBusyError, match="is being trained already"), model.training():
            pass
        assert model.is_trained
    assert not model.is_trained and not model.is_trained_here
    with contextlib.suppress(KeyError), model.training():
        raise KeyError
    assert not model.is_trained


def test_training_in_another_thread_is_not_here() -> None:
    model, seen = live(), []
    with model.training():
        thread = threading.Thread(
            target=lambda: seen.append((model.is_trained, model.is_trained_here))
        )
        thread.start()
        thread.join()
    assert seen == [(True, False)]


def test_evaluation_under_way_keeps_its_values_when_training_begins() -> None:
    model = live()
    evaluation = traced(model, "eval")
    with evaluation.usage.open():
        assert evaluated(evaluation) == 4.0
        with model.training():
            traced(model).variables.by_name["w"].assign(3.0)
            assert evaluated(evaluation) == 4.0
            assert evaluated(traced(model, "eval")) == 36.0


def test_evaluation_that_is_over_is_not_parted_from() -> None:
    model = live()
    evaluation = traced(model, "eval")
    with evaluation.usage.open():
        pass
    with model.training():
        assert traced(model, "eval") is evaluation


def counting_model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """Evaluating it writes to a variable that training goes on with."""
    seen = v1.get_variable("seen", [], initializer=v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([seen.assign_add(1.0)]):
        features = {"x": tf.identity(features["x"])}
    return line.model_fn(features, labels, mode)


@pytest.mark.parametrize("function", [line.model_fn, counting_model_fn])
def test_what_an_evaluation_writes_it_writes_for_itself(function: Any) -> None:
    model = live(function)
    evaluation = traced(model, "eval")
    writes = function is counting_model_fn
    assert evaluation.writes_while_reading == writes
    before = {name: v.numpy() for name, v in evaluation.variables.saved().items()}
    of_the_model = evaluation.variables.saved()
    with evaluation.usage.open(), model.let_write(evaluation):
        evaluated(evaluation)
        evaluated(evaluation)
        if writes:
            assert evaluation.variables.by_name["seen"].numpy() == 2.0
    assert {name: v.numpy() for name, v in of_the_model.items()} == before
    assert (traced(model, "eval") is evaluation) == (not writes)
