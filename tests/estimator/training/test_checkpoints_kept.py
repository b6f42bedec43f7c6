"""How many checkpoints stay: what a model function's own Saver says, at every call of train."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from tests.line import (
    batches,
    checkpoint_steps,
    endless,
    estimator,
    model_fn,
    v1,
)

EVERY_TEN = list(range(0, 101, 10))


def in_scaffold(**settings: Any) -> Callable[..., est.EstimatorSpec]:
    def with_saver(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        return spec._replace(scaffold=v1.train.Scaffold(saver=v1.train.Saver(**settings)))

    return with_saver


def in_collection(**settings: Any) -> Callable[..., est.EstimatorSpec]:
    def with_saver(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver(**settings))
        return spec

    return with_saver


def with_variables(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    spec = model_fn(features, labels, mode)
    saver = v1.train.Saver(v1.global_variables(), max_to_keep=20)  # eagerly it has to be told
    return spec._replace(scaffold=v1.train.Scaffold(saver=saver))


WAYS = {
    "scaffold": (in_scaffold(max_to_keep=20), {}),
    "collection": (in_collection(max_to_keep=20), {}),
    "built late": (in_scaffold(max_to_keep=20, defer_build=True), {}),
    "all": (in_scaffold(max_to_keep=None), {}),
    "eagerly": (with_variables, {"run_eagerly": True}),
    "by time": (in_scaffold(max_to_keep=1, keep_checkpoint_every_n_hours=1e-12), {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_later_calls_keep_what_the_saver_keeps(tmp_path: Path, way: str) -> None:
    function, settings = WAYS[way]
    settings = {"save_checkpoints_steps": 10, **settings}
    made = estimator(tmp_path, function, **settings).train(endless, max_steps=100)
    assert checkpoint_steps(tmp_path) == EVERY_TEN
    at_the_start = []

    class Look(est.SessionRunHook):
        def begin(self) -> None:
            at_the_start.append(checkpoint_steps(tmp_path))

    made.train(endless, max_steps=110, hooks=[Look()])
    anew = estimator(tmp_path, function, **settings)
    anew.train(endless, max_steps=120, hooks=[Look()])
    assert at_the_start == [EVERY_TEN, [*EVERY_TEN, 110]]
    for other in (anew, estimator(tmp_path, **settings)):  # the second has no saver of its own
        other.train(endless, max_steps=50)  # done already
        assert checkpoint_steps(tmp_path) == [*EVERY_TEN, 110, 120]


def test_train_and_evaluate_keeps_what_the_saver_keeps(tmp_path: Path) -> None:
    specs = est.TrainSpec(endless, max_steps=100), est.EvalSpec(batches, steps=None)
    for _ in range(2):
        made = estimator(tmp_path, in_scaffold(max_to_keep=20), save_checkpoints_steps=10)
        est.train_and_evaluate(made, *specs)
        assert checkpoint_steps(tmp_path) == EVERY_TEN


def test_a_saver_that_keeps_fewer_goes_before_the_configuration(tmp_path: Path) -> None:
    made = estimator(
        tmp_path, in_scaffold(max_to_keep=2), save_checkpoints_steps=10, keep_checkpoint_max=9
    )
    made.train(endless, max_steps=50)
    made.train(endless, max_steps=70)
    assert checkpoint_steps(tmp_path) == [60, 70]


def test_variables_of_a_saver_in_the_collection_are_those_saved(tmp_path: Path) -> None:
    def one_of_two(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, labels, mode)
        v1.get_variable("left_out", [], initializer=v1.ones_initializer(), trainable=False)
        chosen = [v for v in v1.global_variables() if "left_out" not in v.name]
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver(chosen))
        return spec

    made = estimator(tmp_path, one_of_two).train(endless, max_steps=3)
    assert sorted(made.get_variable_names()) == ["global_step", "w"]
    assert made.evaluate(batches)["global_step"] == 3


def test_leftovers_of_a_killed_run_are_cleared_up_by_a_call_that_has_nothing_to_do(
    tmp_path: Path,
) -> None:
    made = estimator(tmp_path).train(endless, max_steps=3)
    (tmp_path / "model.ckpt-2.data-00000-of-00001").write_bytes(b"cut off")
    made.train(endless, max_steps=3)
    assert not (tmp_path / "model.ckpt-2.data-00000-of-00001").exists()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-3")
