"""A model function as a graph, and what can be cut out of it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelFnError
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables.store import VariableStore
from tests import line
from tests.line import v1

X, Y = (tf.constant(values) for values in line.BATCHES[0])


def with_more(build: Any) -> Any:
    """The model function of a line that builds something else first."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        build(features["x"])
        return line.model_fn(features, labels, mode)

    return model_fn


def weight(trace: Trace) -> float:
    return float(trace.variables.by_name["w"])


def loss_and_step(trace: Trace) -> list[Any]:
    return [trace.spec.loss, trace.spec.train_op]


# Cutting out


def test_what_is_cut_out_gives_its_tensors_and_runs_its_ops() -> None:
    trace = line.traced()
    [loss] = trace.prune(loss_and_step(trace), trace.inputs)(X, Y)
    assert float(loss) == pytest.approx(line.loss_of(1.0, batch=0))
    assert weight(trace) == pytest.approx(line.weight_after(1))
    assert trace.step_now() == 1


def test_tensors_inside_of_the_graph_can_be_fed() -> None:
    trace = line.traced(function=with_more(lambda x: tf.identity(x * 3.0, name="three")))
    three = trace.graph.get_tensor_by_name("three:0")
    with trace.as_default():
        plus_one = three + 1.0
        constant = tf.constant(1.0)
    assert trace.needs_input([plus_one]) and not trace.needs_input([constant])
    [result] = trace.prune([plus_one], [three])(tf.constant([9.0]))
    assert result.numpy().tolist() == [10.0]


def test_copy_in_another_function_runs_on_the_same_variables() -> None:
    trace = line.traced()

    @tf.function(autograph=False)
    def two_steps() -> list[tf.Tensor]:
        trace.place(loss_and_step(trace), trace.inputs, [X, Y])
        return trace.place(loss_and_step(trace), trace.inputs, [X, Y])

    [loss] = two_steps()
    assert float(loss) == pytest.approx(line.loss_of(line.weight_after(1), batch=0))
    assert trace.step_now() == 2


def test_what_hooks_add_later_can_be_cut_out_as_well() -> None:
    trace = line.traced()

    def placed(tensor: tf.Tensor) -> float:
        def function() -> list[tf.Tensor]:
            return trace.place([tensor], trace.inputs, [X, Y])

        return float(tf.function(function, autograph=False)()[0])

    loss = placed(trace.spec.loss)
    with trace.as_default():
        twice = trace.spec.loss * 2.0
    assert placed(twice) == pytest.approx(2 * loss)


def test_batch_that_does_not_fit_the_model_is_known_before_it_is_run() -> None:
    trace = line.traced()
    shapes = [tf.TensorShape([rows]) for rows in (2, 3)]
    assert trace.part([trace.spec.loss], [shapes[0], shapes[0]]) is not None
    assert trace.part([trace.spec.loss], shapes) is None


# Values of its own


def test_trace_that_keeps_its_values_no_longer_sees_others_change_them() -> None:
    store = VariableStore()
    training, evaluation = line.traced(store=store), line.traced("eval", store)
    shared, binding = evaluation.variables.by_name["w"], evaluation.binding

    def loss() -> float:
        return float(evaluation.prune([evaluation.spec.loss], evaluation.inputs)(X, Y)[0])

    before = loss()
    evaluation.keep_values()
    assert evaluation.binding > binding  # what was compiled of it before is of no use now
    shared.assign(5.0)
    training.global_step.assign(9)
    assert loss() == before and evaluation.step_now() == 0
    assert weight(training) == 5.0 and training.step_now() == 9
    evaluation.variables.by_name["w"].assign(2.0)
    assert loss() == 0.0 and shared.numpy() == 5.0


# What a model function finds, and leaves


def test_resources_of_a_trace_are_named_after_its_owner() -> None:
    def build(x: tf.Tensor) -> None:
        tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="ids")

    store = VariableStore()
    traces = [line.traced(mode, store, with_more(build)) for mode in ("train", "eval")]
    names = {
        op.get_attr("shared_name")
        for trace in traces
        for op in trace.graph.get_operations()
        if op.type.startswith("MutableHashTable")
    }
    assert len(names) == 1 and names.pop().decode().startswith(f"{store.owner}/")


def test_stream_of_python_s_random_numbers_stays_where_it_was() -> None:
    drawn = []
    random.seed(77)
    expected = [random.random() for _ in range(2)]
    random.seed(77)
    for _ in range(2):
        line.traced(function=with_more(lambda x: drawn.append(random.random())))
    assert [random.random() for _ in range(2)] == expected
    assert drawn[0] == drawn[1]  # they follow the seed of the run


def test_count_of_draws_is_there_where_something_is_drawn() -> None:
    def noisy(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        noise = tf.random.normal(tf.shape(features["x"]))
        return line.model_fn({"x": features["x"] + noise}, labels, mode)

    assert line.traced().draws is None
    assert line.traced(function=noisy).draws is not None
    assert line.traced("eval", function=noisy).draws is None


def test_collection_holds_each_thing_once() -> None:
    def build(x: tf.Tensor) -> None:
        for thing in ("a", "b", "a"):
            v1.add_to_collection("things", thing)

    assert line.traced(function=with_more(build)).collection("things") == ["a", "b"]


# What a model function returns


def returning(what: Any) -> Any:
    return lambda features, labels, mode: what(mode)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda mode: None, r"In mode 'train' it returned NoneType.*Is a return missing"),
        (lambda mode: {"loss": 1.0}, r"it returned dict.*Return est.EstimatorSpec\("),
        (
            lambda mode: est.EstimatorSpec("infer", predictions=tf.zeros([1])),
            r"called with mode 'train' but returned an EstimatorSpec of mode 'infer'",
        ),
    ],
)
def test_what_is_no_spec_of_the_mode_is_refused(what: Any, message: str) -> None:
    with pytest.raises(ModelFnError, match=message):
        line.traced(function=returning(what))


def test_spec_that_does_not_know_its_mode_is_told_it() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = line.model_fn(features, labels, mode)
        return est.EstimatorSpec(None, loss=spec.loss, train_op=spec.train_op)

    assert line.traced(function=model_fn).spec.mode == "train"
