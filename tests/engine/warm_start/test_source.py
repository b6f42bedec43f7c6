"""From where a warm start can take values."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import WarmStartError
from estimand.engine.warm_start import apply as ws

W = np.array([[1, 2], [3, 4]], np.float32)


def model(*names: str) -> dict[str, tf.Variable]:
    return {name: tf.Variable(tf.zeros([2, 2])) for name in names}


def check_filled(path: str | os.PathLike[str], name: str = "net/w") -> ws.WarmStartReport:
    live = model(name)
    report = ws.warm_start(ws.normalize(path), live, live)
    np.testing.assert_array_equal(live[name].numpy(), W)
    return report


def v1_session_with_variable() -> tf.compat.v1.Session:
    tf.compat.v1.get_variable("net/w", initializer=W)
    session = tf.compat.v1.Session()
    session.run(tf.compat.v1.global_variables_initializer())
    return session


@pytest.fixture
def v1_directory(tmp_path: Path) -> Path:
    """Two checkpoints as a v1 Saver writes them, the values that count in the newer one."""
    directory = tmp_path / "v1"
    with tf.Graph().as_default(), v1_session_with_variable() as session:
        saver = tf.compat.v1.train.Saver()
        saver.save(session, str(directory / "model.ckpt"), global_step=2)
        shutil.copy(directory / "model.ckpt-2.index", directory / "model.ckpt-1.index")
        shutil.copy(
            directory / "model.ckpt-2.data-00000-of-00001",
            directory / "model.ckpt-1.data-00000-of-00001",
        )
    return directory


# ------------------------------------------------------------------ checkpoints by name


@pytest.mark.parametrize("ending", ["", ".index", ".meta", ".data-00000-of-00001"])
def test_one_checkpoint(v1_directory, ending):
    prefix = str(v1_directory / "model.ckpt-2")
    assert check_filled(prefix + ending).checkpoint == prefix


def test_newest_checkpoint_of_a_directory(v1_directory):
    assert check_filled(v1_directory).checkpoint == str(v1_directory / "model.ckpt-2")


def test_directory_without_its_state_file(v1_directory):
    (v1_directory / "checkpoint").unlink()
    assert check_filled(v1_directory).checkpoint == str(v1_directory / "model.ckpt-2")


def test_broken_newest_checkpoint_is_passed_over_with_a_warning(v1_directory, caplog):
    (v1_directory / "model.ckpt-2.index").write_bytes(b"")
    assert check_filled(v1_directory).checkpoint == str(v1_directory / "model.ckpt-1")
    assert "model.ckpt-2.index" in caplog.text


def test_model_dir_of_upstream(upstream_model_dirs):
    directory = upstream_model_dirs / "dnn_classifier" / "model_dir"
    reader = tf.train.load_checkpoint(str(directory))
    shapes = reader.get_variable_to_shape_map()
    live = {n: tf.Variable(np.zeros_like(reader.get_tensor(n))) for n in sorted(shapes)}
    trainable = [n for n in live if n.startswith("dnn/")]
    assert len(trainable) == 7 and len(live) == 17
    taken = ws.warm_start(ws.normalize(directory), live, trainable).taken
    assert taken == trainable
    for name in trainable:
        np.testing.assert_array_equal(live[name].numpy(), reader.get_tensor(name))
    assert live["global_step"].numpy() == 0
    ws.warm_start(ws.WarmStartSettings(directory, [".*"]), live, trainable)
    assert live["global_step"].numpy() == 120
    slot = "training/Adagrad/dnn/logits/kernel/accumulator"
    np.testing.assert_array_equal(live[slot].numpy(), reader.get_tensor(slot))


# ------------------------------------------------------------------ SavedModels


@pytest.fixture
def v1_export(tmp_path: Path) -> Path:
    """A SavedModel in the format in which tf.estimator exports."""
    directory = tmp_path / "export" / "1700000000"
    with tf.Graph().as_default() as graph, v1_session_with_variable() as session:
        builder = tf.compat.v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"])
        builder.save()
        assert graph.get_collection("variables")
    return directory


def test_saved_model_of_v1(v1_export):
    check_filled(v1_export)


def test_saved_model_in_settings(v1_export):
    live = model("net/w")
    ws.warm_start(ws.WarmStartSettings(v1_export), live, live)
    np.testing.assert_array_equal(live["net/w"].numpy(), W)


def test_variables_folder_of_a_saved_model(v1_export):
    check_filled(v1_export / "variables")


def test_saved_model_of_tf2(tmp_path):
    module = tf.Module()
    with tf.name_scope("net"):
        module.anything = tf.Variable(W, name="w")
    tf.saved_model.save(module, str(tmp_path / "export"))
    check_filled(tmp_path / "export")


def test_saved_model_of_keras(tmp_path):
    import keras

    inputs = keras.Input((2,))
    keras_model = keras.Model(inputs, keras.layers.Dense(2, use_bias=False, name="d")(inputs))
    keras_model.set_weights([W])
    keras_model.export(tmp_path / "export", verbose=False)
    check_filled(tmp_path / "export", keras_model.weights[0].path)


# ------------------------------------------------------------------ object-based checkpoints


def object_based(prefix: Path, **objects: tf.Variable) -> str:
    return tf.train.Checkpoint(**objects).write(str(prefix))


def test_object_based_checkpoint_is_read_by_variable_names(tmp_path):
    check_filled(object_based(tmp_path / "o", obj=tf.Variable(W, name="net/w")))


def test_directory_of_object_based_checkpoints(tmp_path):
    tf.train.Checkpoint(obj=tf.Variable(W, name="net/w")).save(str(tmp_path / "ckpt"))
    assert check_filled(tmp_path).checkpoint == str(tmp_path / "ckpt-1")


@pytest.mark.parametrize("old", ["old/w", "obj/.ATTRIBUTES/VARIABLE_VALUE", "obj"])
def test_renamed_variable_of_an_object_based_checkpoint(tmp_path, old):
    path = object_based(tmp_path / "o", obj=tf.Variable(W, name="old/w"))
    live = model("net/w")
    settings = ws.WarmStartSettings(path, var_name_to_prev_var_name={"net/w": old})
    ws.warm_start(settings, live, live)
    np.testing.assert_array_equal(live["net/w"].numpy(), W)


def test_object_based_checkpoint_that_lacks_variables(tmp_path):
    path = object_based(tmp_path / "o", obj=tf.Variable(W, name="net/w"))
    live = model("net/w", "net/other")
    with pytest.raises(
        WarmStartError,
        match="Attempting to warm-start from an object-based checkpoint, but found that the "
        r"checkpoint did not contain values for all variables\. The following variables were "
        r"missing: \['net/other'\]",
    ):
        ws.warm_start(ws.normalize(path), live, live)


def test_two_objects_of_one_name_are_not_guessed_between(tmp_path):
    path = object_based(tmp_path / "o", a=tf.Variable(W, name="w"), b=tf.Variable(-W, name="w"))
    live = model("w")
    with pytest.raises(
        WarmStartError, match="holds 2 different variables that were called 'w'"
    ) as caught:
        ws.warm_start(ws.normalize(path), live, live)
    key = "b/.ATTRIBUTES/VARIABLE_VALUE"
    assert key in str(caught.value)
    ws.warm_start(ws.WarmStartSettings(path, ".*", None, {"w": key}), live, live)
    np.testing.assert_array_equal(live["w"].numpy(), -W)


# ------------------------------------------------------------------ nothing there


def test_no_such_path(tmp_path):
    with pytest.raises(
        WarmStartError, match=r"Failed to find any matching files for .*nowhere.* a model_dir"
    ):
        check_filled(tmp_path / "nowhere")


def test_directory_without_checkpoints(tmp_path):
    with pytest.raises(
        WarmStartError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"
    ):
        check_filled(tmp_path)


def test_directory_of_exports_points_to_the_last(v1_export):
    with pytest.raises(WarmStartError, match=r"to use the last, give '.*1700000000'"):
        check_filled(v1_export.parent)


def test_directory_of_broken_checkpoints_tells_what_is_wrong(v1_directory):
    for index in v1_directory.glob("*.index"):
        index.write_bytes(b"")
    with pytest.raises(WarmStartError, match=r"None of those it names .*ckpt-2\.index is cut"):
        check_filled(v1_directory)


def test_index_that_cannot_be_read(v1_directory):
    (v1_directory / "model.ckpt-2.index").write_bytes(b"x" * 200)
    with pytest.raises(WarmStartError, match=r"Cannot warm-start from .*ckpt-2, which cannot"):
        check_filled(v1_directory / "model.ckpt-2")
