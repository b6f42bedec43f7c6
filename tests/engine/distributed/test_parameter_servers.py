"""Training with parameter servers: real processes on this machine, some of them killed."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.engine.distributed.parameter_servers_input import as_graph
from tests.engine.distributed import served_models
from tests.engine.distributed.served_cluster import (
    Cluster,
    alone,
    loss,
    newest_step,
    values,
)

pytestmark = pytest.mark.slow

_BATCHES = 6  # 48 rows in batches of 8


def shapes(model_dir: str) -> dict[str, list[int]]:
    return dict(tf.train.list_variables(tf.train.latest_checkpoint(model_dir)))


@pytest.mark.full
def test_a_lost_worker_comes_back_and_partitioned_training_ends_as_in_one_process(
    processes, tmp_path
):
    """Begun in one process, gone on with in parts on two servers, and ended in one process."""
    model_dir = str(tmp_path / "model")
    alone("regression", model_dir, 20)
    before = shapes(model_dir)
    settings = {"model": "regression", "max_steps": 600, "shards": 2, "save_every": 100}
    cluster = Cluster(processes, tmp_path, workers=2, ps=2, **settings)
    cluster.wait_for_step(100)
    cluster.kill("worker", 0)
    at_loss = newest_step(model_dir)
    cluster.wait_for_step(at_loss + 100)  # the other one never stops
    cluster.start("worker", 0)
    cluster.ends_well()
    assert newest_step(model_dir) == 600
    assert "parts of the table: 2" in cluster.log("chief")
    assert shapes(model_dir) == before
    served = alone("regression", model_dir, 601)
    expected = alone("regression", str(tmp_path / "alone"), 601)
    # While the lost one was away, the other went on with its own rows: how long, is chance.
    assert loss(served) == pytest.approx(loss(expected), rel=0.3)


def test_a_worker_that_never_comes_back_keeps_nobody(processes, tmp_path):
    settings = {"model": "regression", "max_steps": 300, "save_every": 100, "at_once": False}
    cluster = Cluster(processes, tmp_path, workers=2, **settings)
    cluster.wait_for_step(100)
    cluster.kill("worker", 0)
    del cluster.ids["worker", 0]
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == 300


def test_workers_come_later_leave_and_move(processes, tmp_path):
    """One of three is there at first; the second comes, the first leaves for good, the third comes
    under another address than the chief was told; then comes one that nobody has named."""
    settings = {"model": "regression", "max_steps": 100_000, "save_every": 100, "at_once": False}
    cluster = Cluster(processes, tmp_path, workers=3, min_workers=1, **settings)
    cluster.wait_for_log("chief", "Training begins without worker 1, worker 2.")
    cluster.wait_for_step(100)
    cluster.start("worker", 1)
    cluster.wait_until_takes_part(1)
    cluster.kill("worker", 0)
    del cluster.ids["worker", 0]
    cluster.wait_for_step(newest_step(cluster.model_dir) + 100)  # by worker 1 alone
    cluster.move("worker", 2)
    cluster.start("worker", 2)
    cluster.wait_until_takes_part(2)
    cluster.kill("worker", 1)
    del cluster.ids["worker", 1]
    cluster.wait_for_step(newest_step(cluster.model_dir) + 100)  # by worker 2 alone
    cluster.start_unnamed_worker(7)
    cluster.wait_until_takes_part(7)
    cluster.kill("worker", 2)
    cluster.wait_for_step(newest_step(cluster.model_dir) + 100)  # by worker 7 alone
    os.kill(cluster.ids["chief", 0], signal.SIGTERM)
    assert cluster.exit_code("chief") == 128 + signal.SIGTERM
    cluster.kill("worker", 7)
    del cluster.ids["worker", 7]
    cluster.start("worker", 2)
    reached = newest_step(cluster.model_dir)
    assert values(cluster.model_dir)["global_step"] == reached
    cluster.start("chief", max_steps=reached + 50)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == reached + 50
    assert not os.path.exists(f"{cluster.model_dir}/workers")  # also what lost ones left


def test_a_lost_chief_and_a_lost_server_go_on_from_the_checkpoint(processes, tmp_path):
    settings = {"model": "regression", "max_steps": 900, "save_every": 50}
    cluster = Cluster(processes, tmp_path, workers=1, **settings)
    cluster.wait_for_step(50)
    cluster.kill("chief")
    reached = newest_step(cluster.model_dir)
    cluster.start("chief")
    cluster.wait_for_step(reached + 50)
    assert reached + 50 <= newest_step(cluster.model_dir) < 900
    cluster.kill("worker")  # both at once: nobody is left to stumble over the lost server
    cluster.kill("ps")
    assert cluster.exit_code("chief") == 1
    assert re.search(
        r"ClusterError: Training cannot go on: ps 0 at 127.0.0.1:\d+ was lost, and the variables "
        "with it. The last checkpoint is intact",
        cluster.log("chief"),
    )
    for role in ("worker", "ps", "chief"):
        cluster.start(role)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == 900


@pytest.mark.full
def test_a_server_that_is_told_to_end_has_the_chief_save_first(processes, tmp_path):
    """As where a machine is taken away; all that was trained is there when it comes back."""
    settings = {"model": "regression", "max_steps": 100_000, "save_every": 1_000_000}
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, at_once=False, **settings)
    cluster.wait_for_log("chief", "training  ")  # the line that counts steps
    os.kill(cluster.ids["ps", 1], signal.SIGTERM)
    assert cluster.exit_code("chief") == cluster.exit_code("ps", 1) == 128 + signal.SIGTERM
    reached = newest_step(cluster.model_dir)
    assert reached > 0
    assert values(cluster.model_dir)["global_step"] == reached
    for role, index in (("ps", 1), ("chief", 0)):
        cluster.start(role, index, max_steps=reached + 50)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == reached + 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("model", ["keras_optimizer", "columns", "tables", "converted"])
def test_one_worker_computes_what_one_process_does(processes, tmp_path, model):
    """Variables of every style, in parts on two servers, after the same steps."""
    expected = str(tmp_path / "alone")
    estimator = alone(model, expected, _BATCHES)
    shutil.copytree(expected, tmp_path / "model")
    estimator.train(served_models.input_fn(8), max_steps=2 * _BATCHES)
    steps = 2 * _BATCHES
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, model=model, max_steps=steps, shards=2)
    cluster.ends_well()
    found, wanted = values(cluster.model_dir), values(expected)
    assert found["global_step"] == steps
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.sample(4)
@pytest.mark.parametrize("optimizer", served_models.OPTIMIZERS)
def test_of_a_large_table_only_rows_travel(processes, tmp_path, optimizer):
    """Whatever the optimizer keeps for it, and does to the rows that a batch did not look up."""
    model, steps = f"large_{optimizer}", 2 * _BATCHES
    expected = str(tmp_path / "alone")
    estimator = alone(model, expected, _BATCHES)
    shutil.copytree(expected, tmp_path / "model")
    estimator.train(served_models.input_fn(8), max_steps=steps)
    cluster = Cluster(processes, tmp_path, workers=1, ps=2, model=model, max_steps=steps, shards=2)
    cluster.ends_well()
    found, wanted = values(cluster.model_dir), values(expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-7, err_msg=name)
    sent = cluster.told("bytes on the wire", "worker")
    assert 0 < sent < 4 * np.prod(served_models.LARGE) / 4  # in all steps together


@pytest.mark.full
def test_no_process_holds_the_whole_of_a_table_in_parts(processes, tmp_path):
    """Made, saved and restored on four servers, in other parts, and exported."""
    size, files = 4 * np.prod(served_models.HUGE), []
    for shards, steps in ((16, 3), (12, 6)):
        settings = {"model": "huge", "max_steps": steps, "shards": shards}
        settings["export"] = str(tmp_path / "export")
        cluster = Cluster(processes, tmp_path, workers=1, ps=4, **settings)
        cluster.ends_well()
        held = {task: cluster.told("bytes more than at the start", *task) for task in cluster.ids}
        without_tables = held["worker", 0]
        # Of oneDNN's allocator, which takes twice as much each time, some is never used.
        assert max(held.values()) - without_tables < 0.75 * size, held
        files = os.listdir(cluster.model_dir)
    reader = tf.train.load_checkpoint(cluster.model_dir)
    table = reader.get_tensor("huge")
    assert reader.get_tensor("global_step") == 6
    assert table.shape == served_models.HUGE
    assert -0.1 <= table[100:].min() < -0.09 < 0.09 < table[100:].max() <= 0.1
    assert sum(name.startswith("model.ckpt-6.data") for name in files) >= 4
    exported = tf.saved_model.load(max(glob.glob(str(tmp_path / "export/*"))))
    rows = np.array([0, 4, 1_999_999, 3_999_999])
    answer = exported.signatures["serving_default"](kind=tf.constant(rows))["logits"]
    np.testing.assert_allclose(answer[:, 0], table[rows].sum(axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_training_ends_with_the_input_and_hooks_see_every_step(processes, tmp_path):
    seen = str(tmp_path / "seen.json")
    settings = {"model": "regression", "repeat": False, "watch": seen}
    cluster = Cluster(processes, tmp_path, at_once=False, **settings)
    cluster.ends_well()
    assert newest_step(cluster.model_dir) == _BATCHES  # three for each worker
    assert json.loads(Path(seen).read_text()) == [0, 1, 2, 3, 4, 5]


def test_an_input_that_runs_python_cannot_be_sent_to_workers():
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([1.0]), output_signature=tf.TensorSpec([])
    )
    with pytest.raises(InputError, match="runs Python code in its pipeline"):
        as_graph(dataset, lambda: dataset)


def test_a_pipeline_sent_as_a_graph_gives_the_same_elements():
    dataset = tf.data.Dataset.range(20).shuffle(20, seed=3).map(lambda x: x * x).batch(4)
    graph = as_graph(dataset, lambda: dataset)
    again = tf.data.experimental.from_variant(
        tf.raw_ops.DatasetFromGraph(graph_def=graph), dataset.element_spec
    )
    rows = [int(x) for batch in again for x in batch]
    assert sorted(rows) == [x * x for x in range(20)]
    assert rows != sorted(rows)
