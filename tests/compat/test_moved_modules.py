"""Imports of old programs whose modules moved inside of TensorFlow, or are no more."""

from __future__ import annotations

import gzip
import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.install import installed
from estimand.core.errors import EstimandError


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with installed():
        yield


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.python.training.tracking import tracking; tracking.AutoTrackable()",
        "from tensorflow.python.training.tracking.tracking import TrackableResource",
        "from tensorflow.python.training.tracking import base as trackable; trackable.Trackable",
        "from tensorflow.python.training.tracking import util; util.Checkpoint()",
        "from tensorflow.python.training.tracking.data_structures import NoDependency",
        "from tensorflow.python.training.checkpointable import base; base.CheckpointableBase",
        "from tensorflow.python.training.checkpointable.tracking import AutoCheckpointable",
        "from tensorflow.python.eager import profiler_client; profiler_client.trace",
        "from tensorflow.python.distribute import estimator_training as et; et.train_and_evaluate",
        "from tensorflow.examples.tutorials.mnist import input_data; input_data.read_data_sets",
        "from tensorflow.python.framework.ops import Tensor, IndexedSlices",
        "from tensorflow.python.util import nest; assert nest.is_sequence([1])",
        "from tensorflow.contrib.framework import nest; assert not nest.is_sequence(1)",
        "from tensorflow.contrib.framework import nest; nest.flatten_up_to([0], [[1, 2]])",
        "from tensorflow.python.ops import variables; variables.VariableV1(1.0)",
        "from tensorflow.python.ops import variable_scope as v; v.resource_variables_enabled()",
        "from tensorflow.python.ops.array_ops import stack; stack([1, 2])",
        "from tensorflow.python.layers.normalization import BatchNormalization",
        "from tensorflow.python.layers import convolutional; convolutional.Conv2D(2, 3)",
    ],
)
def test_import_statements(statement: str) -> None:
    exec(statement, {})


def test_an_object_of_an_old_class_is_saved_in_a_checkpoint(tmp_path: Path) -> None:
    tracking = importlib.import_module("tensorflow.python.training.tracking.tracking")

    class Model(tracking.AutoTrackable):
        def __init__(self) -> None:
            self.w = tf.Variable(2.0)

    path = tf.train.Checkpoint(model=Model()).save(str(tmp_path / "ckpt"))
    restored = Model()
    restored.w.assign(0.0)
    tf.train.Checkpoint(model=restored).restore(path)
    assert float(restored.w) == 2.0


def test_a_graph_is_frozen_with_the_arguments_of_tensorflow_1(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [], "x")
        left = v1.get_variable("left", initializer=3.0)
        tf.multiply(x, left * v1.get_variable("frozen", initializer=2.0), name="y")
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        path = saver.save(session, str(tmp_path / "ckpt"))
        freeze_graph = importlib.import_module("tensorflow.python.tools.freeze_graph")
        frozen = freeze_graph.freeze_graph_with_def_protos(
            input_graph_def=graph.as_graph_def(),
            input_saver_def=saver.as_saver_def(),
            input_checkpoint=path,
            output_node_names="y",
            restore_op_name=None,
            filename_tensor_name=None,
            output_graph=str(tmp_path / "frozen.pb"),
            clear_devices=True,
            initializer_nodes="",
            variable_names_blacklist="left",
        )
    ops = {node.name: node.op for node in frozen.node}
    assert ops["frozen"] == "Const" and ops["left"] != "Const"


def test_a_name_that_is_nowhere_is_told() -> None:
    base = importlib.import_module("tensorflow.python.training.tracking.base")
    with pytest.raises(AttributeError, match=r"'tensorflow.python.training.tracking.base' has no"):
        base.Nothing  # noqa: B018


def test_a_profile_is_bytes_that_can_be_saved(tmp_path: Path) -> None:
    profiler = importlib.import_module("tensorflow.python.eager.profiler")
    with pytest.raises(profiler.ProfilerNotRunningError):
        profiler.stop()
    with profiler.Profiler(str(tmp_path)):
        with pytest.raises(profiler.ProfilerAlreadyRunningError):
            profiler.start()
        tf.matmul(tf.ones([3, 3]), tf.ones([3, 3]))
    (saved,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert saved.stat().st_size > 0


def write_mnist(folder: Path, count: int = 30) -> np.ndarray:
    images = np.random.RandomState(0).randint(0, 255, [count, 28, 28], np.uint8)
    labels = (np.arange(count) % 10).astype(np.uint8)
    for part in ("train", "t10k"):
        header = np.array([2051, count, 28, 28], ">u4").tobytes()
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(header + images.tobytes())
        header = np.array([2049, count], ">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return images


def test_the_tutorial_that_reads_mnist(tmp_path: Path) -> None:
    images = write_mnist(tmp_path)
    input_data = importlib.import_module("tensorflow.examples.tutorials.mnist.input_data")
    mnist = input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=5, seed=1)
    assert mnist.train.num_examples == 25 and mnist.test.images.shape == (30, 784)
    np.testing.assert_allclose(mnist.validation.images, images[:5].reshape(5, -1) / 255.0)
    seen = [mnist.train.next_batch(10) for _ in range(5)]
    assert mnist.train.epochs_completed == 1
    assert all(x.shape == (10, 784) and y.shape == (10, 10) for x, y in seen)
    first = np.concatenate([x for x, _ in seen[:3]])[:25]
    assert sorted(map(tuple, first)) == sorted(
        map(tuple, images[5:].reshape(25, -1) / np.float32(255))
    )


def test_where_there_are_no_files_the_message_says_what_to_do(tmp_path: Path) -> None:
    datasets = importlib.import_module("tensorflow.contrib.learn").datasets
    with pytest.raises(EstimandError, match=r"no train-images-idx3-ubyte.gz in .*load_data"):
        datasets.mnist.load_mnist(str(tmp_path))
    with pytest.raises(EstimandError, match="only 'mnist' is read"):
        datasets.load_dataset("dbpedia")


def test_names_that_moved_are_what_they_were() -> None:
    ops = importlib.import_module("tensorflow.python.framework.ops")
    control_flow_ops = importlib.import_module("tensorflow.python.ops.control_flow_ops")
    assert ops.Tensor is tf.Tensor and ops.IndexedSlices is tf.IndexedSlices
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [])
        y = control_flow_ops.cond(x > 1.0, lambda: x * 2.0, lambda: x)
        n = control_flow_ops.while_loop(lambda n: n < x, lambda n: n * 2.0, [1.0])
        assert session.run([y, n], {x: 3.0}) == [6.0, 4.0]
