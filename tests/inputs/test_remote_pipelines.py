"""Pipelines of the ready-made input functions that are sent to other processes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.engine.distributed.parameter_servers_input import as_graph
from estimand.inputs.remote_pipelines import pipelines_run_elsewhere, runs_elsewhere


def csv_file(folder: Path) -> tuple[Path, Callable[..., Any]]:
    path = folder / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"".join(b"%d\n" % n for n in range(500))))
    return path, est.inputs.csv_input_fn(path, 5)


def text_file(folder: Path) -> tuple[Path, Callable[..., Any]]:
    path = folder / "t.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(500))))
    return path, est.inputs.text_input_fn(path, 5)


def record_file(folder: Path) -> tuple[Path, Callable[..., Any]]:
    path = folder / "t.tfrecord"
    est.records.write(path, {"a": range(500)}, compression="GZIP")
    spec = {"a": tf.io.FixedLenFeature([], tf.int64)}
    return path, est.inputs.tfrecord_input_fn(path, spec, batch_size=5)


@pytest.fixture(params=[csv_file, text_file, record_file], ids=["csv", "text", "tfrecord"])
def compressed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Path, Callable[..., tf.data.Dataset]]:
    return request.param(tmp_path)


def python_ops(dataset: tf.data.Dataset) -> set[str]:
    graphs = tf_private.function_graphs(dataset)
    return {op.type for graph in graphs for op in graph.get_operations() if "PyFunc" in op.type}


def test_compressed_files_are_read_without_python_code(
    compressed: tuple[Path, Callable[..., tf.data.Dataset]],
) -> None:
    _, read = compressed
    assert python_ops(read(mode="train"))  # here a cut file is found where it ends
    with pipelines_run_elsewhere():
        dataset = read(mode="eval")
    assert not python_ops(dataset)
    sent = tf.raw_ops.DatasetFromGraph(graph_def=as_graph(dataset, read))
    received = tf.data.experimental.from_variant(sent, dataset.element_spec)
    assert (
        sum(int(tf.shape(batch["a" if "a" in batch else "text"])[0]) for batch in received) == 500
    )


def test_cut_file_is_named_before_its_pipeline_is_sent(
    compressed: tuple[Path, Callable[..., tf.data.Dataset]],
) -> None:
    path, read = compressed
    path.write_bytes(path.read_bytes()[:-20])
    with pipelines_run_elsewhere(), pytest.raises(InputError, match=f"{path.name}.* cut or damag"):
        read(mode="train")


def test_pipeline_with_python_code_that_has_no_state_is_not_sent() -> None:
    def plus_one(x: tf.Tensor) -> tf.Tensor:
        return tf.numpy_function(lambda n: n + 1, [x], tf.int64, stateful=False)

    with pytest.raises(InputError, match=r"PyFuncStateless.*the workers, which do not have that"):
        as_graph(tf.data.Dataset.range(3).map(plus_one), plus_one)


def test_the_data_service_tells_its_input_function() -> None:
    told = []

    def input_fn() -> tf.data.Dataset:
        told.append(runs_elsewhere())
        return tf.data.Dataset.range(1)

    with pytest.raises(InputError, match="no data service answered"):
        est.inputs.service(input_fn, "localhost:1", wait_secs=0)()
    assert told == [True]


def test_rows_that_are_left_out_elsewhere_are_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    read = est.inputs.csv_input_fn(tmp_path / "t.csv", on_error="skip")
    read(mode="train")
    assert not caplog.text
    with pipelines_run_elsewhere():
        read(mode="train")
    assert "broken rows are left out without being counted" in caplog.text
