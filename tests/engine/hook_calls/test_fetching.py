"""What hooks may ask for, resolved against a graph, and given back as it was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelFnError
from estimand.engine.hook_calls import fetching
from estimand.engine.tracing.trace import Trace
from tests import line
from tests.line import v1

X, Y = (tf.constant(values) for values in line.BATCHES[0])


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    spec = line.model_fn(features, labels, mode)
    tf.identity(spec.loss, name="loss")
    tf.no_op(name="nothing")
    v1.add_to_collection("sparse", tf.sparse.from_dense([[0.0, 7.0]]))
    v1.add_to_collection("ragged", tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]))
    for shape in (None, tf.constant([9, 2])):
        v1.add_to_collection("slices", tf.IndexedSlices(tf.ones([1, 2]), tf.constant([4]), shape))
    return spec


@pytest.fixture(scope="module")
def traced() -> Trace:
    return line.traced(function=model_fn)


@pytest.fixture
def trace(traced: Trace) -> Trace:
    """At the first step."""
    traced.variables.by_name["w"].assign(1.0)
    traced.global_step.assign(0)
    return traced


def fetched(trace: Trace, structure: Any) -> Any:
    """Resolved, computed and put together as at a look."""
    plan = fetching.plan(trace, structure)
    results = iter(trace.prune(plan.graph_fetches, trace.inputs)(X, Y))
    values = [
        None if isinstance(f, tf.Operation) else fetching.to_numpy(next(results))
        for f in plan.graph_fetches
    ]
    return plan.rebuild([fetching.to_numpy(v) for v in plan.reads], values)


LOSS = pytest.approx(line.loss_of(1.0, batch=0))


@pytest.mark.parametrize("name", ["loss:0", b"loss:0"])
def test_tensor_is_found_by_its_name(trace: Trace, name: Any) -> None:
    assert fetched(trace, name) == LOSS


def test_structure_comes_back_as_it_was(trace: Trace) -> None:
    asked = {"a": [trace.spec.loss, None], "b": ("w", trace.graph.get_operation_by_name("nothing"))}
    assert fetched(trace, asked) == {"a": [LOSS, None], "b": (1.0, None)}


def test_thing_that_is_asked_for_twice_is_computed_once(trace: Trace) -> None:
    w = trace.variables.by_name["w"]
    plan = fetching.plan(trace, [trace.spec.loss, trace.spec.loss.name, w, "w", w])
    assert plan.graph_fetches == (trace.spec.loss,) and plan.reads == (w,)
    assert plan.rebuild(["the weight"], ["the loss"]) == [
        "the loss", "the loss", "the weight", "the weight", "the weight",
    ]  # fmt: skip


def test_plans_of_the_same_things_have_one_key(trace: Trace) -> None:
    first, second = (fetching.plan(trace, s) for s in ({"a": "loss:0", "b": "w"}, ["w", "loss:0"]))
    assert first.key == second.key != fetching.plan(trace, ["w"]).key


# Reads are apart: they are done before the step


def test_variable_is_read_by_itself_by_its_name_and_by_its_value(trace: Trace) -> None:
    step = trace.global_step
    with trace.as_default():
        value, same = step.read_value(), tf.identity(step)
    for asked in (step, "global_step", "global_step:0", value, same):
        plan = fetching.plan(trace, asked)
        assert plan.reads == (step,) and not plan.graph_fetches


def test_value_that_waits_for_something_is_no_mere_read(trace: Trace) -> None:
    with trace.as_default(), tf.control_dependencies([trace.spec.train_op]):
        after = trace.global_step.read_value()
    plan = fetching.plan(trace, after)
    assert not plan.reads and plan.graph_fetches == (after,)
    assert fetched(trace, after) == 1


def test_value_that_is_computed_of_a_variable_is_no_mere_read(trace: Trace) -> None:
    with trace.as_default():
        twice = trace.variables.by_name["w"] * 2.0
    assert not fetching.plan(trace, twice).reads and fetched(trace, twice) == 2.0


def test_result_of_an_assignment_is_the_value_after_it(trace: Trace) -> None:
    with trace.as_default():
        assigned = trace.variables.by_name["w"].assign(5.0)
    assert fetched(trace, assigned) == 5.0
    size = len(trace.graph.get_operations())
    assert fetched(trace, assigned) == 5.0
    assert len(trace.graph.get_operations()) == size


def test_variable_of_keras_is_read_as_its_tensorflow_variable(trace: Trace) -> None:
    class Wrapping:
        value = trace.variables.by_name["w"]

    assert fetching.plan(trace, Wrapping()).reads == (Wrapping.value,)


# Composites


def test_sparse_and_ragged_tensors_come_back_as_from_a_session(trace: Trace) -> None:
    [sparse], [ragged] = (trace.graph.get_collection(kind) for kind in ("sparse", "ragged"))
    got = fetched(trace, {"sparse": sparse, "ragged": ragged})
    assert isinstance(got["sparse"], v1.SparseTensorValue)
    assert [part.tolist() for part in got["sparse"]] == [[[0, 1]], [7.0], [1, 2]]
    assert isinstance(got["ragged"], v1.ragged.RaggedTensorValue)
    assert got["ragged"].to_list() == [[1, 2], [3]]


def test_gradients_of_rows_come_back_as_from_a_session(trace: Trace) -> None:
    without, with_shape = fetched(trace, trace.graph.get_collection("slices"))
    assert without.values.tolist() == [[1.0, 1.0]] and without.indices.tolist() == [4]
    assert without.dense_shape is None and with_shape.dense_shape.tolist() == [9, 2]
    with tf.Graph().as_default(), v1.Session() as session:
        assert type(session.run(tf.IndexedSlices(tf.ones([1]), tf.zeros([1])))) is type(without)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(tf.constant([1.0]), np.ndarray), (tf.constant("a"), bytes), (np.float32(1), np.float32),
     (b"a", bytes), ([1, 2], np.ndarray)],
)  # fmt: skip
def test_values_are_those_that_a_session_gives(value: Any, kind: type) -> None:
    assert isinstance(fetching.to_numpy(value), kind)


# What is not there


def test_name_that_is_not_there_is_told_with_similar_ones(trace: Trace) -> None:
    with pytest.raises(ModelFnError, match=r"named 'net/loss:0' in the 'train'.*names: .*loss"):
        fetching.plan(trace, "net/loss:0")
    with pytest.raises(ModelFnError, match=r"named 'zebra:0'.*Give the tensor a name"):
        fetching.plan(trace, "zebra:0")


def test_what_is_not_of_the_graph_is_refused(trace: Trace) -> None:
    with tf.Graph().as_default():
        elsewhere = tf.constant(1.0)
    for asked in (elsewhere, 17):
        with pytest.raises(ModelFnError, match="Cannot fetch"):
            fetching.plan(trace, [asked])
