"""Checkpoints go both ways between TensorFlow's own tools and ours."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from estimand.engine.checkpoints.api import (
    CheckpointWriter,
    Entry,
    KeepPolicy,
    Wanted,
    checkpoint_step,
    companion_prefix,
    latest_checkpoint,
    read_meta,
    read_tensors,
    restore_newest_intact,
)

CASES = ["custom_v1", "dnn_classifier", "linear_classifier", "wide_deep"]
KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def ours(tmp_path):
    with CheckpointWriter(tmp_path) as writer:
        for step in (0, 7):
            writer.save(
                step,
                [
                    Entry("dense/kernel", tf.constant(KERNEL + step)),
                    Entry("global_step", tf.constant(step, tf.int64)),
                ],
                meta={},
            )
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_upstream_model_dir_is_read(upstream_model_dirs, case):
    model_dir = upstream_model_dirs / case / "model_dir"
    expected = tf.train.load_checkpoint(str(model_dir))
    wanted = [
        Wanted(name, expected.get_variable_to_dtype_map()[name], tuple(shape))
        for name, shape in expected.get_variable_to_shape_map().items()
    ]
    path, tensors = restore_newest_intact(model_dir, wanted)
    assert checkpoint_step(path) == 120
    assert companion_prefix(path) is None
    assert read_meta(path) is None
    assert len(tensors) > 5
    for one, tensor in zip(wanted, tensors, strict=True):
        np.testing.assert_array_equal(tensor, expected.get_tensor(one.name))


def test_upstream_variables_are_those_listed_with_the_fixture(upstream_model_dirs):
    case = upstream_model_dirs / "custom_v1"
    listed = json.loads((case / "expected.json").read_text())["variables"]
    path = latest_checkpoint(case / "model_dir")
    wanted = [Wanted("global_step", tf.int64, ()), Wanted("hidden/kernel", tf.float32, (None, 12))]
    assert {one.name for one in wanted} <= set(dict(listed))
    assert read_tensors(path, wanted)[0] == 120


def test_tf_train_finds_and_reads_ours(ours):
    path = tf.train.latest_checkpoint(str(ours))
    assert path == latest_checkpoint(ours) == str(ours / "model.ckpt-7")
    assert tf.train.list_variables(path) == [("dense/kernel", [2, 3]), ("global_step", [])]
    np.testing.assert_array_equal(
        tf.train.load_checkpoint(str(ours)).get_tensor("dense/kernel"), KERNEL + 7
    )
    state = tf.train.get_checkpoint_state(str(ours))
    assert list(state.all_model_checkpoint_paths) == [str(ours / f"model.ckpt-{n}") for n in (0, 7)]


def test_v1_saver_restores_ours_in_a_session(ours):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = v1.get_variable("dense/kernel", [2, 3])
        step = v1.train.get_or_create_global_step()
        v1.train.Saver().restore(session, latest_checkpoint(ours))
        values = session.run([kernel, step])
    np.testing.assert_array_equal(values[0], KERNEL + 7)
    assert values[1] == 7


def test_ours_reads_what_a_v1_saver_wrote_and_goes_on_with_its_list(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("dense/kernel", initializer=KERNEL)
        v1.get_variable("split", [4, 2], partitioner=tf.compat.v1.fixed_size_partitioner(2))
        saver = v1.train.Saver(save_relative_paths=True)
        session.run(v1.global_variables_initializer())
        for step in (1, 2):
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=step)
    path, [kernel, _] = restore_newest_intact(
        tmp_path,
        [
            Wanted("dense/kernel", tf.float32, (2, 3)),
            Wanted("split", tf.float32, (2, 2), "4 2 2,2:0,2"),
        ],
    )
    assert checkpoint_step(path) == 2
    np.testing.assert_array_equal(kernel, KERNEL)
    with CheckpointWriter(tmp_path, KeepPolicy(2)) as writer:
        writer.save(3, [Entry("dense/kernel", tf.constant(KERNEL))])
    steps = [checkpoint_step(p.with_suffix("")) for p in sorted(tmp_path.glob("*.index"))]
    assert steps == [2, 3]
    assert not list(tmp_path.glob("model.ckpt-1.*"))


def test_tf_checkpoint_manager_style_polling_sees_each_of_ours(ours):
    seen = list(tf.train.checkpoints_iterator(str(ours), timeout=0, timeout_fn=lambda: True))
    assert seen == [str(ours / "model.ckpt-7")]
