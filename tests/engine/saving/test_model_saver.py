"""What of a model goes into a checkpoint, and back; read with TensorFlow's own reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.checkpoints.api import Entry, KeepPolicy, companion_prefix, read_meta
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.saving import model_saver as saving
from estimand.engine.saving.model_saver import ModelSaver, saved_variables
from estimand.engine.variables.store import VariableStore
from tests import line
from tests.line import v1


class Model:
    """A line that is saved, with no run around it."""

    def __init__(self, model_dir: Path, function: Any = line.model_fn, **options: Any) -> None:
        self.store = VariableStore()
        self.trace = line.traced(store=self.store, function=function)
        self.session = TracedSession(self.trace)
        position = options.pop("position", None)
        self.saver = ModelSaver(
            self.session, self.store, str(model_dir), KeepPolicy(), position, **options
        )

    def set(self, name: str, value: Any) -> None:
        self.trace.variables.by_name[name].assign(value)
        self.store.mark_changed()


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    model = Model(tmp_path)
    yield model
    model.saver.close()


def values_at(path: str) -> dict[str, Any]:
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def with_more(build: Callable[[], Any]) -> Any:
    """The model function of a line that builds something else, too: its Saver, if it gives one."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = line.model_fn(features, labels, mode)
        saver = build()
        return spec if saver is None else spec._replace(scaffold=v1.train.Scaffold(saver=saver))

    return model_fn


def the_weight() -> tf.Variable:
    with v1.variable_scope("", reuse=True):
        return v1.get_variable("w", [])


# What is saved


def test_values_are_those_of_the_moment_though_they_are_written_later(model: Model) -> None:
    model.set("w", 3.0)
    model.set("global_step", 7)
    path = model.saver.save(7)
    model.set("w", 4.0)
    model.saver.wait()
    assert values_at(path) == {"w": 3.0, "global_step": 7}


def test_second_checkpoint_does_not_change_the_first(model: Model) -> None:
    """They are copied through the same memory."""
    paths = []
    for value in (1.0, 2.0, 3.0):
        model.set("w", value)
        paths.append(model.saver.save(int(value)))
    model.saver.wait()
    assert [values_at(path)["w"] for path in paths] == [1.0, 2.0, 3.0]


def test_local_variables_are_none_of_it() -> None:
    def build() -> None:
        v1.get_variable("seen", [], collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)

    trace = line.traced(function=with_more(build))
    assert {v.name for v in saved_variables(trace)} == {"w", "global_step"}


def test_saver_of_a_scaffold_says_which_under_which_names() -> None:
    model_fn = with_more(lambda: v1.train.Saver({"weight": the_weight()}))
    [saved] = saved_variables(line.traced(function=model_fn))
    assert (saved.store_name, saved.name) == ("w", "weight")
    assert saved.origin("model.ckpt-3") == "model.ckpt-3#weight"


def test_only_saver_of_the_collection_says_so_too_and_of_two_neither() -> None:
    def build(count: int) -> None:
        for _ in range(count):
            v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver([the_weight()]))

    one, two = (line.traced(function=with_more(partial(build, count))) for count in (1, 2))
    assert {v.name for v in saved_variables(one)} == {"w"}
    assert {v.name for v in saved_variables(two)} == {"w", "global_step"}


def test_parts_of_a_variable_are_one_in_the_file(tmp_path: Path) -> None:
    table = np.arange(10, dtype=np.float32).reshape(5, 2)

    def build() -> None:
        v1.get_variable(
            "table", [5, 2], initializer=lambda shape, dtype=None, partition_info=None: tf.constant(
                table[partition_info.var_offset[0] :][: shape[0]]
            ), partitioner=v1.fixed_size_partitioner(2),
        )  # fmt: skip

    model = Model(tmp_path, with_more(build))
    model.session.run([v.initializer for v in model.trace.collection("variables")])
    path = model.saver.save(0, synchronous=True)
    assert {v.slice_spec for v in saved_variables(model.trace) if v.name == "table"} == {
        "5 2 0,3:0,2", "5 2 3,2:0,2",
    }  # fmt: skip
    np.testing.assert_array_equal(values_at(path)["table"], table)
    model.saver.close()


def test_variable_that_a_later_step_made_is_saved_as_well(model: Model) -> None:
    """Eagerly, each step makes the model anew."""
    model.saver.save(1)

    def build() -> None:
        v1.get_variable("more", [], initializer=v1.ones_initializer())

    model.session.trace = line.traced(store=model.store, function=with_more(build))
    assert values_at(model.saver.save(2, synchronous=True)).keys() == {"w", "more", "global_step"}


def test_place_in_the_input_lies_beside_it(tmp_path: Path) -> None:
    taken = [Entry("iterator", tf.constant([5, 6]))], {"kind": "count", "batches": 9}
    model = Model(tmp_path, position=SimpleNamespace(take=lambda: taken))
    path = model.saver.save(4, synchronous=True)
    meta = read_meta(path)
    assert meta is not None and meta["input"] == {"kind": "count", "batches": 9}
    assert values_at(companion_prefix(path) or "")["iterator"].tolist() == [5, 6]
    assert "iterator" not in values_at(path)
    model.saver.close()


def test_steps_that_drew_random_numbers_are_counted_beside_it(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        noise = tf.random.uniform(tf.shape(features["x"]))
        return line.model_fn({"x": features["x"] + noise}, labels, mode)

    model = Model(tmp_path, model_fn)
    assert model.trace.draws is not None
    model.trace.draws.start(41)
    meta = read_meta(model.saver.save(4, synchronous=True))
    assert meta is not None and meta[saving.DRAWS] == 41
    model.saver.close()


# When it is written again, and where


@pytest.mark.parametrize("changed", [False, True])
def test_what_was_restored_is_written_again_only_if_it_changed(
    tmp_path: Path, changed: bool
) -> None:
    first = Model(tmp_path)
    written = saving.identity(first.saver.save(5, synchronous=True))
    first.saver.close()
    again = Model(tmp_path, restored_step=5)
    if changed:
        again.set("w", 2.0)
    path = again.saver.save(5, synchronous=True)
    assert (saving.identity(path) != written) == changed
    assert values_at(path)["w"] == (2.0 if changed else 1.0)
    again.saver.close()


def test_checkpoint_is_current_until_something_changes(model: Model) -> None:
    path = model.saver.save(1, synchronous=True)
    assert model.saver.is_current(path) and not model.saver.is_current(f"{path}0")
    model.store.mark_changed()
    assert not model.saver.is_current(path)


def test_one_under_another_name_is_not_the_last(model: Model, tmp_path: Path) -> None:
    last = model.saver.save(1)
    others = [
        model.saver.save(2, basename="mine"),
        model.saver.save(2, directory=str(tmp_path / "elsewhere")),
    ]
    model.saver.wait()
    assert others == [str(tmp_path / "mine-2"), str(tmp_path / "elsewhere" / "model.ckpt-2")]
    assert all(values_at(path)["w"] == 1.0 for path in others)
    assert model.saver.last_path == last and model.saver.is_current(last)


def test_two_names_in_one_directory_are_written_in_turn(model: Model, tmp_path: Path) -> None:
    """Both change the file that says which is the newest, in the background."""
    for step in range(8):
        newest = model.saver.save(step, basename=("model.ckpt", "mine")[step % 2])
    model.saver.wait()
    assert tf.train.latest_checkpoint(str(tmp_path)) == newest == str(tmp_path / "mine-7")


def test_another_name_of_the_directory_makes_no_other_checkpoints(
    model: Model, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(tmp_path)
    path = model.saver.save(1, directory=str(link), synchronous=True)
    assert path == model.saver.last_path == str(tmp_path / "model.ckpt-1")


def test_checkpoint_that_was_written_anew_is_another(model: Model) -> None:
    path = model.saver.save(1, synchronous=True)
    before = model.saver.origins(path)
    assert before == {n: f"{saving.identity(path)}#{n}" for n in ("w", "global_step")}
    model.set("w", 2.0)
    assert model.saver.save(1, synchronous=True) == path
    assert model.saver.origins(path).items().isdisjoint(before.items())
    assert saving.identity(f"{path}0") == f"{path}0"  # which is not there


# Who else can do with it


def test_trace_of_the_same_variables_would_read_back_what_it_has(model: Model) -> None:
    assert model.saver.provides(line.traced("eval", model.store))


@pytest.mark.parametrize(
    "build",
    [
        lambda: v1.get_variable("more", []).initializer and None,
        lambda: v1.train.Saver({"w/ExponentialMovingAverage": the_weight()}),
        lambda: tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1) and None,
    ],
    ids=["a variable of its own", "an average for the variable", "a table"],
)
def test_trace_that_wants_something_else_would_not(model: Model, build: Any) -> None:
    assert not model.saver.provides(line.traced("eval", model.store, with_more(build)))


# Objects that model code registered


def test_registered_objects_are_saved_and_given_back(tmp_path: Path) -> None:
    def build() -> None:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        v1.add_to_collection("the_table", table)

    def contents(model: Model) -> Any:
        [table] = model.trace.collection("the_table")
        with model.trace.as_default():
            found = table.lookup(tf.constant(["a", "b"]))
        return model.session.run(found).tolist()

    first, second = (Model(tmp_path, with_more(build)) for _ in range(2))
    [table] = first.trace.collection("the_table")
    with first.trace.as_default():
        insert = table.insert(tf.constant(["a"]), tf.constant([7], tf.int64))
    first.session.run(insert)
    path = first.saver.save(1, synchronous=True)
    assert contents(second) == [-1, -1]
    saving.restore_saveables(second.trace, second.session, path)
    assert contents(second) == contents(first) == [7, -1]
    first.saver.close()
    second.saver.close()
