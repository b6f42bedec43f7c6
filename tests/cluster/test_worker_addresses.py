from __future__ import annotations

from pathlib import Path

import pytest

from estimand.cluster import worker_addresses
from estimand.cluster.worker_addresses import WorkerAddresses, announce, announced, retract


def test_a_worker_is_where_it_says_it_is(tmp_path: Path) -> None:
    workers = WorkerAddresses({0: "a:1", 1: "b:1"})
    announce(str(tmp_path), 1, "c:1")
    announce(str(tmp_path), 7, "d:1")  # which TF_CONFIG does not name
    assert workers.now() == {0: "a:1", 1: "b:1"}  # they are not told to look there
    workers.model_dir = str(tmp_path)
    assert workers.now() == {0: "a:1", 1: "c:1", 7: "d:1"}


def test_only_those_that_answer_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_addresses, "takes_part", lambda address: address != "b:1")
    workers = WorkerAddresses({0: "a:1", 1: "b:1", 2: "c:1"})
    assert workers.there({1, 2, 9}) == {2: "c:1"}
    assert workers.there(()) == {}


def test_what_was_left_is_left_again_when_it_was_cleared_away(tmp_path: Path) -> None:
    model_dir = str(tmp_path / "new")
    announce(model_dir, 0, "a:1")
    announce(model_dir, 0, "b:1")  # it is there already
    announce(model_dir, 1, "c:1")
    assert announced(model_dir) == {0: "a:1", 1: "c:1"}
    retract(model_dir, 0)
    assert announced(model_dir) == {1: "c:1"}
    retract(model_dir)
    assert announced(model_dir) == {} and not (tmp_path / "new" / "workers").exists()
    announce(model_dir, 0, "b:1")
    assert announced(model_dir) == {0: "b:1"}
