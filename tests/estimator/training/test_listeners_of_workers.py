"""Who is told of checkpoints in a cluster."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ConfigError
from estimand.engine.saving.taking import CheckpointTaker, NoCheckpoints
from estimand.estimator.training.hooks import checkpoint_taker

SPEC = est.EstimatorSpec("train", loss=tf.constant(0.0), train_op=tf.constant(0.0))
TRACE = SimpleNamespace(spec=SPEC, runs_eagerly=True)
LISTENER = est.CheckpointSaverListener()


def of_worker(index: int, monkeypatch: pytest.MonkeyPatch, **settings: object) -> est.RunConfig:
    task = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    return est.RunConfig("/tmp/none", **settings)  # type: ignore[arg-type]


def taker(config: est.RunConfig) -> CheckpointTaker | NoCheckpoints:
    return checkpoint_taker(TRACE, config, [], [LISTENER], lambda step, **options: "")


def test_a_worker_that_saves_nothing_takes_listeners_without_telling_them(monkeypatch) -> None:
    assert not taker(of_worker(1, monkeypatch)).takes_any
    of_chief = taker(of_worker(0, monkeypatch))
    assert isinstance(of_chief, CheckpointTaker) and of_chief.listeners == [LISTENER]


def test_listeners_are_told_by_the_hook_that_saves(monkeypatch) -> None:
    hook = est.CheckpointSaverHook("/tmp/none", save_steps=5)
    config = of_worker(0, monkeypatch)
    assert checkpoint_taker(TRACE, config, [hook], [LISTENER], lambda step: "").takes_any is False
    assert hook._listeners == [LISTENER]


def test_where_nobody_saves_a_listener_is_an_error_for_all(monkeypatch) -> None:
    for index in (0, 1):
        with pytest.raises(ConfigError, match="CheckpointSaverHook"):
            taker(of_worker(index, monkeypatch, save_checkpoints_secs=None))
