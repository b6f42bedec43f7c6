"""Workers and parameter servers, which end when the chief says so; and finding each other."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import estimand as est
from estimand.cluster import servers, strategy
from estimand.cluster.addresses import LOOPBACK, free_ports
from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.places import local_tf_configs
from estimand.core.errors import ClusterError, ConfigError
from tests.cluster import jobs
from tests.integration.processes import Child

CHIEF = Task("chief", 0)


@contextlib.contextmanager
def all_of(*children: Child) -> Iterator[None]:
    try:
        yield
    finally:
        for one in children:
            one.kill()


# ------------------------------------------------------------------ real processes


def test_servers_end_well_when_the_chief_says_so(tmp_path: Path) -> None:
    configs = local_tf_configs(ClusterDescription(workers=1, ps=1))
    model_dir = str(tmp_path / "model")
    chief = Child(jobs.drive, configs[CHIEF], log=tmp_path / "chief")
    ps = Child(jobs.play, configs[Task("ps", 0)], model_dir, log=tmp_path / "ps")
    worker = Child(jobs.only_train, configs[Task("worker", 0)], model_dir, log=tmp_path / "worker")
    with all_of(chief, ps, worker):
        assert [one.wait() for one in (chief, ps, worker)] == [0, 0, 0], (
            chief.printed + ps.printed + worker.printed
        )
    assert "a worker says 42" in chief.printed
    assert "chief has ended the training; ps 0 is done." in ps.printed
    assert "the program goes on" in ps.printed
    assert "the program goes on" in worker.printed
    port = json.loads(configs[CHIEF])["cluster"]["ps"][0].rpartition(":")[2]
    assert not Path(f"/tmp/estimand-ps-0-{port}").exists()


def test_workers_without_servers_join_each_other(tmp_path: Path) -> None:
    configs = local_tf_configs(ClusterDescription(workers=1)).values()
    children = [
        Child(jobs.join_workers, text, log=tmp_path / f"{i}") for i, text in enumerate(configs)
    ]
    with all_of(*children):
        assert [one.wait() for one in children] == [0, 0], children[0].printed
    assert all("2 of 2" in one.printed for one in children)


def test_joining_after_something_was_computed_is_explained(tmp_path: Path) -> None:
    [text, _] = local_tf_configs(ClusterDescription(workers=1)).values()
    child = Child(jobs.join_too_late, text, log=tmp_path / "log")
    with all_of(child):
        assert child.wait() == 0, child.printed
    assert "has computed something before chief joined its cluster" in child.printed


@pytest.mark.parametrize("role", ["worker", "ps", "evaluator"])
def test_some_have_nobody_to_join(monkeypatch: Any, role: str) -> None:
    put(monkeypatch, {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, role)
    assert est.join_cluster() is None


def put(monkeypatch: Any, cluster: dict[str, list[str]], role: str) -> None:
    text = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
    monkeypatch.setenv("TF_CONFIG", text)
    monkeypatch.setenv("ESTIMAND_CLUSTER_TIMEOUT_SECS", "0.2")


def test_worker_that_never_comes_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    mine, other = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    put(monkeypatch, {"worker": [mine, other]}, "worker")
    # Other tests have computed before in this process.
    monkeypatch.setattr(strategy, "_tensorflow_has_begun", lambda: False)
    estimator = est.Estimator(jobs.model_fn, tmp_path)
    with pytest.raises(ClusterError, match=f"^worker 1 at {other} did not answer within 0.2 s"):
        estimator.train(jobs.input_fn, max_steps=1)


def test_cluster_with_servers_and_no_worker(tmp_path: Path, monkeypatch: Any) -> None:
    put(monkeypatch, {"chief": ["a:1"], "ps": ["b:1"]}, "ps")
    specs = est.TrainSpec(jobs.input_fn, max_steps=1), est.EvalSpec(jobs.input_fn)
    with pytest.raises(ConfigError, match="1 parameter servers and no worker"):
        est.train_and_evaluate(est.Estimator(jobs.model_fn, tmp_path), *specs)


def test_train_of_a_parameter_server_is_refused_as_ever(tmp_path: Path, monkeypatch: Any) -> None:
    put(monkeypatch, {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "ps")
    with pytest.raises(ValueError, match="Train has been called wrong configuration"):
        est.Estimator(jobs.model_fn, tmp_path).train(jobs.input_fn, max_steps=1)


# ------------------------------------------------------------------ watching the chief


class World:
    """A chief that is there at certain seconds."""

    def __init__(self, there: Any, record: bool = False, timeout: float = 100.0) -> None:
        self.now = 0.0
        self.watch = servers.ChiefWatch(
            CHIEF,
            "10.0.0.5:2222",
            timeout,
            record_is_new=lambda: record,
            clock=lambda: self.now,
            reachable=lambda address: there(self.now),
        )

    def ended_by(self, second: float) -> float | None:
        while self.now < second:
            if self.watch.has_ended():
                return self.now
            self.now += 1.0
        return None


def test_chief_that_has_finished_and_gone() -> None:
    ended = World(lambda now: now < 30, record=True).ended_by(100)
    assert ended is not None and 35 <= ended <= 45


def test_record_does_not_count_while_the_chief_is_there() -> None:
    assert World(lambda now: True, record=True).ended_by(1000) is None


def test_record_does_not_count_before_the_chief_has_come() -> None:
    assert World(lambda now: now > 50, record=True).ended_by(90) is None


def test_chief_that_is_restarted_in_time() -> None:
    assert World(lambda now: not 30 < now < 120).ended_by(300) is None


def test_chief_that_never_comes() -> None:
    with pytest.raises(
        ClusterError, match=r"chief at 10\.0\.0\.5:2222 did not answer within 100 s"
    ):
        World(lambda now: False).ended_by(200)


def test_chief_that_is_lost() -> None:
    with pytest.raises(ClusterError, match="went away and did not come back within 100 s"):
        World(lambda now: now < 30).ended_by(200)


# ------------------------------------------------------------------ the farewell


def test_old_farewell_is_forgotten(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(servers, "_FOLDER", str(tmp_path / "{role}-{index}-{port}"))
    servers.forget_farewell(Task("ps", 0), "a:1")
    assert not servers.was_told(Task("ps", 0), "a:1")
    (tmp_path / "ps-0-1" / "training_ended").touch()
    assert servers.was_told(Task("ps", 0), "a:1")
    servers.forget_farewell(Task("ps", 0), "a:1")
    assert not servers.was_told(Task("ps", 0), "a:1")


def test_place_that_is_not_ours_is_not_used(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(servers, "_FOLDER", str(tmp_path / "{role}-{index}-{port}"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ps-0-1").symlink_to(tmp_path / "elsewhere")
    servers.forget_farewell(Task("ps", 0), "a:1")
    assert "ps 0 cannot be told when training has ended" in caplog.text
