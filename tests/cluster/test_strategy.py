from __future__ import annotations

import json
from typing import Any

import pytest

import estimand as est
from estimand.cluster.strategy import MULTI_WORKER, PARAMETER_SERVERS, kind_of_strategy
from estimand.core.errors import ConfigError


def config_of(monkeypatch: Any, cluster: dict[str, list[str]], role: str, index: int = 0) -> Any:
    text = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    monkeypatch.setenv("TF_CONFIG", text)
    return est.RunConfig()


CHIEF, WORKER, TWO, PS = ["a:1"], ["b:1"], ["b:1", "c:1"], ["d:1"]


@pytest.mark.parametrize(
    ("cluster", "role", "expected"),
    [
        ({"chief": CHIEF}, "chief", None),
        ({"chief": CHIEF, "evaluator": ["e:1"]}, "chief", None),
        ({"chief": CHIEF, "worker": WORKER}, "evaluator", None),
        ({"chief": CHIEF, "worker": WORKER, "ps": PS}, "evaluator", None),
        ({"worker": WORKER}, "worker", None),
        ({"worker": TWO}, "worker", MULTI_WORKER),
        ({"worker": TWO, "evaluator": ["e:1"]}, "worker", MULTI_WORKER),
        ({"chief": CHIEF, "worker": WORKER}, "chief", MULTI_WORKER),
        ({"chief": CHIEF, "worker": WORKER}, "worker", MULTI_WORKER),
        ({"master": CHIEF, "worker": WORKER}, "master", MULTI_WORKER),
        ({"chief": CHIEF, "worker": WORKER, "ps": PS}, "chief", PARAMETER_SERVERS),
        ({"chief": CHIEF, "worker": WORKER, "ps": PS}, "worker", PARAMETER_SERVERS),
        ({"chief": CHIEF, "worker": WORKER, "ps": PS}, "ps", PARAMETER_SERVERS),
    ],
)
def test_strategy_that_the_cluster_asks_for(
    monkeypatch: Any, cluster: dict[str, list[str]], role: str, expected: str | None
) -> None:
    assert kind_of_strategy(config_of(monkeypatch, cluster, role)) == expected


def test_alone_there_is_none() -> None:
    assert kind_of_strategy(est.RunConfig()) is None


def test_the_default_strategy_is_none_and_others_are_refused_at_once() -> None:
    import tensorflow as tf

    config = est.RunConfig(model_dir="unused", train_distribute=tf.distribute.get_strategy())
    assert est.Estimator(lambda features: None, config=config).config.train_distribute is None
    stored = tf.distribute.experimental.CentralStorageStrategy.__new__(
        tf.distribute.experimental.CentralStorageStrategy
    )
    with pytest.raises(ConfigError, match=r"eval_distribute=.* cannot be a CentralStorageStrategy"):
        est.Estimator(lambda features: None, config=config.replace(eval_distribute=stored))


def test_parameter_servers_without_workers(monkeypatch: Any) -> None:
    config = config_of(monkeypatch, {"chief": CHIEF, "ps": PS}, "chief")
    with pytest.raises(ConfigError, match=r"1 parameter servers and no worker.*add \"worker\""):
        kind_of_strategy(config)
