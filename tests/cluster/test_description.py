from __future__ import annotations

import pytest

from estimand.cluster.addresses import addresses_of, free_ports, split_address
from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.places import local_tf_configs
from estimand.core.errors import ConfigError
from estimand.core.tf_config import parse_tf_config


@pytest.mark.parametrize("counts", [(0, 0, False), (2, 0, True), (3, 2, True)])
def test_every_process_reads_the_place_it_was_given(counts: tuple[int, int, bool]) -> None:
    cluster = ClusterDescription(*counts)
    for task, text in local_tf_configs(cluster).items():
        read = parse_tf_config({"TF_CONFIG": text})
        assert Task(read.task_type, read.task_id) == task
        if task.role != "evaluator":
            assert (read.num_worker_replicas, read.num_ps_replicas) == (1 + counts[0], counts[1])
            assert read.is_chief == (task.role == "chief")


def test_local_processes_have_addresses_of_their_own() -> None:
    [text, *_] = local_tf_configs(ClusterDescription(workers=4, ps=3)).values()
    addresses = addresses_of(parse_tf_config({"TF_CONFIG": text}).cluster)
    assert len(addresses) == len(set(addresses.values())) == 8


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ((-1, 0), "cannot have -1 workers and 0 parameter servers"),
        ((0, 2), "2 parameter servers needs at least one worker.*--workers 1"),
    ],
)
def test_cluster_that_cannot_be(counts: tuple[int, int], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ClusterDescription(*counts)


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:x", "host:0", "host:70000"])
def test_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match=f"address of worker 1 in TF_CONFIG.*{address!r}"):
        split_address(address, Task("worker", 1))


def test_address_given_twice() -> None:
    with pytest.raises(ConfigError, match="gives chief and worker 0 the same address 'a:1'"):
        addresses_of({"chief": {0: "a:1"}, "worker": {0: "a:1"}})


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
