"""`model.ckpt-N.meta`: programs that restore a model by `import_meta_graph`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed

v1 = tf.compat.v1
X = np.random.RandomState(0).rand(32, 3).astype("float32")


def input_fn() -> tf.data.Dataset:
    batch = ({"a": X[:, :1], "x": X}, X.sum(1, keepdims=True))
    return tf.data.Dataset.from_tensor_slices(batch).repeat().batch(8)


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """With what is special to a training graph: dropout, slots, a variable in parts, a table."""
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([0, 1], [2, 3], tf.int64, tf.int64), -1
    )
    with v1.variable_scope("net"):
        w = v1.get_variable("w", [3, 4], regularizer=lambda v: 1e-3 * tf.reduce_sum(v * v))
        hidden = tf.nn.relu(tf.matmul(features["x"], w), name="hidden")
        dropped = tf.nn.dropout(hidden, rate=0.2) if mode == "train" else hidden
        y = tf.matmul(hidden, v1.get_variable("w2", [4, 1]), name="y")
        noise = tf.reduce_sum(dropped, name="noise")
    parts = v1.get_variable("emb", [10, 2], partitioner=v1.fixed_size_partitioner(2))
    ids = table.lookup(tf.constant([0, 1], tf.int64))
    y = tf.add(y, tf.reduce_sum(tf.nn.embedding_lookup(parts, ids)), name="out")
    if mode == "infer":
        return est.EstimatorSpec(mode, predictions={"y": y})
    loss = v1.losses.mean_squared_error(labels, y) + 0.0 * noise
    train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder: Path, **config: Any) -> est.Estimator:
    made = est.Estimator(
        model_fn, folder, est.RunConfig(keep_checkpoint_max=2, save_checkpoints_steps=2, **config)
    )
    return made.train(input_fn, steps=6)


def meta_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.meta"))


def test_a_program_restores_the_model_from_its_meta_graph(tmp_path: Path) -> None:
    with installed():
        estimator = trained(tmp_path)
    predicted = next(estimator.predict(lambda: input_fn().take(1), yield_single_examples=False))
    path = tf.train.latest_checkpoint(str(tmp_path))
    with tf.Graph().as_default() as graph, v1.Session() as session:
        saver = v1.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        session.run([v1.tables_initializer(), v1.local_variables_initializer()])
        out = graph.get_tensor_by_name("out:0")
        batch = {"IteratorGetNext:0": X[:8, :1], "IteratorGetNext:1": X[:8]}
        np.testing.assert_allclose(session.run(out, batch), predicted["y"], rtol=1e-5)
        assert session.run(v1.train.get_global_step()) == 6
        names = [v.op.name for v in v1.trainable_variables()]
        assert names == ["net/w", "net/w2", "emb/part_0", "emb/part_1"]
        values = dict(zip(names, session.run(v1.trainable_variables()), strict=True))
        assert session.run(v1.losses.get_regularization_loss()) > 0
        masks = [session.run("net/dropout/GreaterEqual:0", batch) for _ in range(2)]
        # It can be trained on, and saved.
        labels = {"IteratorGetNext:2": X[:8].sum(1, keepdims=True)}
        session.run(v1.get_collection("train_op"), {**batch, **labels})
        (tmp_path / "other").mkdir()
        again = saver.save(session, str(tmp_path / "other" / "model.ckpt"), global_step=7)
    assert not np.array_equal(*masks)
    reader = tf.train.load_checkpoint(path)
    np.testing.assert_array_equal(values["net/w"], reader.get_tensor("net/w"))
    whole = np.concatenate([values["emb/part_0"], values["emb/part_1"]])
    np.testing.assert_array_equal(whole, reader.get_tensor("emb"))
    assert {n for n, _ in tf.train.list_variables(again)} == {
        n for n, _ in tf.train.list_variables(path)
    }
    assert estimator.get_variable_value("global_step") == 6


def test_the_names_are_those_of_tf_estimator(tmp_path: Path) -> None:
    trained(tmp_path, save_meta_graph=True)
    meta = v1.MetaGraphDef.FromString((tmp_path / "model.ckpt-6.meta").read_bytes())
    ops = {node.name: node.op for node in meta.graph_def.node}
    # As tf.estimator 2.15 names them in this program.
    expected = {
        "IteratorGetNext": "IteratorGetNext",
        "IteratorV2": "IteratorV2",
        "global_step": "VarHandleOp",
        "net/w": "VarHandleOp",
        "net/w/Read/ReadVariableOp": "ReadVariableOp",
        "net/w/Assign": "AssignVariableOp",
        "net/w/Adam_1": "VarHandleOp",
        "net/w/Regularizer/mul": "Mul",
        "net/hidden": "Relu",
        "net/dropout/random_uniform/RandomUniform": "RandomUniform",
        "emb/part_1": "VarHandleOp",
        "out": "AddV2",
        "mean_squared_error/value": "DivNoNan",
        "Adam": "AssignAddVariableOp",
        "init": "NoOp",
        "save/restore_all": "NoOp",
        "save/Const": "PlaceholderWithDefault",
    }
    assert {name: ops.get(name) for name in expected} == expected
    assert not [name for name in ops if name.startswith("estimand/")]
    assert meta.saver_def.restore_op_name == "save/restore_all"
    assert meta.saver_def.max_to_keep == 2


def test_they_are_removed_with_their_checkpoints(tmp_path: Path) -> None:
    with installed():
        trained(tmp_path)
    assert meta_files(tmp_path) == ["model.ckpt-4.meta", "model.ckpt-6.meta"]


@pytest.mark.parametrize(
    ("under_install", "config", "written"),
    [
        (False, {}, False),
        (False, {"save_meta_graph": True}, True),
        (True, {"save_meta_graph": False}, False),
        (True, {"checkpoint_save_graph_def": False}, False),
    ],
)
def test_when_they_are_written(
    under_install: bool, config: dict[str, Any], written: bool, tmp_path: Path
) -> None:
    if under_install:
        with installed():
            trained(tmp_path, **config)
    else:
        trained(tmp_path, **config)
    assert bool(meta_files(tmp_path)) is written


def test_a_model_that_does_not_fit_into_a_graph_trains_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = iter(tf.data.Dataset.range(100))

    def with_iterator(features: Any, labels: Any, mode: str) -> Any:
        spec = model_fn(features, labels, mode)
        return spec._replace(loss=spec.loss + tf.cast(next(outside), tf.float32))

    config = est.RunConfig(save_meta_graph=True)
    est.Estimator(with_iterator, tmp_path, config).train(input_fn, steps=1)
    assert not meta_files(tmp_path)
    assert "No model.ckpt-N.meta is written for this model" in caplog.text
