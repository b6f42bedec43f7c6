"""Parameter servers over a network that is slow, loses packets, or is cut; real TCP, in namespaces.

What is promised: training goes on, or ends with one sentence within a time that is known, and what
was trained is right.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.engine.distributed import served_models
from tests.engine.distributed.network import Network, is_permitted
from tests.engine.distributed.served_cluster import Cluster, alone, loss, newest_step, values

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not is_permitted(), reason="may not make network namespaces"),
]
HOSTS = ("chief0", "worker0", "worker1", "ps0")
BATCHES = 6
GAVE_UP = r"chief at \S+ (went away and did not come back|did not answer) within 60 s"
REGRESSION = {"model": "regression", "save_every": 100, "at_once": False}


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(HOSTS)
    yield made
    made.close()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("delay", "lost"), [(0.0, 0.05), (0.05, 0.0)], ids=["5 % lost", "50 ms"])
def test_a_slow_network_and_a_lossy_one_change_no_number(
    processes, tmp_path, network, delay, lost
) -> None:
    expected = str(tmp_path / "alone")
    estimator = alone("tables", expected, BATCHES)
    shutil.copytree(expected, tmp_path / "model")
    estimator.train(served_models.input_fn(8), max_steps=2 * BATCHES)
    network.delay(delay)
    network.lose(lost)
    settings = {"model": "tables", "max_steps": 2 * BATCHES}
    cluster = Cluster(processes, tmp_path, workers=1, network=network, **settings)
    cluster.ends_well()
    found, wanted = values(cluster.model_dir), values(expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.full
@pytest.mark.parametrize("host", HOSTS[1:])
def test_a_cable_that_is_cut_for_some_seconds(processes, tmp_path, network, host) -> None:
    cluster = Cluster(processes, tmp_path, network=network, max_steps=600, **REGRESSION)
    cluster.wait_for_step(100)
    network.cut(host)
    time.sleep(6)
    network.mend(host)
    cluster.ends_well()
    assert_trained(cluster, tmp_path)


def assert_trained(cluster: Cluster, folder, input_fn=None) -> None:
    """As in one process, which for all steps but the last reads this input."""
    assert newest_step(cluster.model_dir) == 600
    served = alone("regression", cluster.model_dir, 601)
    alone("regression", str(folder / "alone"), 600, input_fn)
    expected = alone("regression", str(folder / "alone"), 601)
    assert loss(served) == pytest.approx(loss(expected), rel=0.05)


@pytest.mark.full
def test_a_worker_whose_cable_is_cut_for_ever_is_done_without(processes, tmp_path, network) -> None:
    cluster = Cluster(processes, tmp_path, network=network, max_steps=600, **REGRESSION)
    cluster.wait_for_step(100)
    network.cut("worker0")
    assert [cluster.exit_code(*task) for task in (("chief", 0), ("worker", 1), ("ps", 0))] == [
        0
    ] * 3
    # It reads on the disk that training has ended, or gives up.
    assert cluster.exit_code("worker", 0) == 0 or re.search(GAVE_UP, cluster.log("worker", 0))
    # Nobody reads its share of the input any more: the rows of the other one are fitted, which
    # for all of them makes a loss that is 14 % larger.
    assert_trained(cluster, tmp_path, served_models.share_fn(8, 1, 2))


@pytest.mark.full
@pytest.mark.parametrize("host", ["ps0", "chief0"])
def test_a_server_out_of_reach_ends_training_with_one_sentence(
    processes, tmp_path, network, host
) -> None:
    cluster = Cluster(processes, tmp_path, network=network, max_steps=100_000, **REGRESSION)
    cluster.wait_for_step(100)
    network.cut(host)
    assert cluster.exit_code("chief") == 1
    assert re.search(
        r"ClusterError: Training cannot go on: ps 0 at \S+ was lost, and the variables with it. "
        "The last checkpoint is intact",
        cluster.log("chief"),
    )
    for task in (("worker", 0), ("worker", 1), ("ps", 0)):
        assert cluster.exit_code(*task) == 1
        assert re.search(GAVE_UP, cluster.log(*task))
    network.mend(host)
    reached = newest_step(cluster.model_dir)
    for role, index in cluster.ids.copy():
        cluster.start(role, index, max_steps=reached + 50)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == reached + 50
