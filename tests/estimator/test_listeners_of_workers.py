"""Who is told of checkpoints in a cluster."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ConfigError
from estimand.estimator.training import hooks as training_hooks

SPEC = est.EstimatorSpec("train", loss=tf.constant(0.0), train_op=tf.constant(0.0))
LISTENER = est.CheckpointSaverListener()


def of_worker(index: int, monkeypatch: pytest.MonkeyPatch, **settings: object) -> est.RunConfig:
    task = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    return est.RunConfig("/tmp/none", **settings)  # type: ignore[arg-type]


def test_a_worker_that_saves_nothing_takes_listeners_without_telling_them(monkeypatch) -> None:
    hooks = training_hooks.eager_hooks(SPEC, of_worker(1, monkeypatch), [], [LISTENER])
    assert not any(isinstance(hook, est.CheckpointSaverHook) for hook in hooks)
    [saver, *_] = training_hooks.eager_hooks(SPEC, of_worker(0, monkeypatch), [], [LISTENER])
    assert saver._listeners == [LISTENER]


def test_where_nobody_saves_a_listener_is_an_error_for_all(monkeypatch) -> None:
    for index in (0, 1):
        config = of_worker(index, monkeypatch, save_checkpoints_secs=None)
        with pytest.raises(ConfigError, match="CheckpointSaverHook"):
            training_hooks.eager_hooks(SPEC, config, [], [LISTENER])
