"""`tf.contrib.framework` as networks that begin with somebody else's checkpoint use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
slim = contrib.slim
framework = contrib.framework


def names(variables: list[Any]) -> list[str]:
    return [variable.op.name for variable in variables]


def small_net(x: Any) -> tuple[Any, dict[str, Any]]:
    """As those of slim are written."""
    with v1.variable_scope("net") as scope:
        end_points = scope.original_name_scope + "end_points"
        with slim.arg_scope(
            [slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=end_points
        ):
            x = slim.conv2d(x, 4, 3, scope="conv1", normalizer_fn=slim.batch_norm)
            x = slim.max_pool2d(x, 2, scope="pool1")
            x = slim.fully_connected(slim.flatten(x), 3, activation_fn=None, scope="logits")
            return x, slim.utils.convert_collection_to_dict(end_points)


def test_end_points_are_collected_by_name() -> None:
    with tf.Graph().as_default():
        logits, points = small_net(tf.ones([2, 8, 8, 1]))
        assert list(points) == ["net/conv1", "net/pool1", "net/logits"]
        assert points["net/logits"] is logits
        assert points["net/conv1"].shape == [2, 8, 8, 4]


def test_variables_of_layers_are_those_of_the_model() -> None:
    with tf.Graph().as_default():
        small_net(tf.ones([2, 8, 8, 1]))
        v1.get_variable("other", [2])
        v1.train.create_global_step()
        assert names(slim.get_model_variables("net/conv1")) == [
            "net/conv1/weights",
            "net/conv1/BatchNorm/beta",
            "net/conv1/BatchNorm/moving_mean",
            "net/conv1/BatchNorm/moving_variance",
        ]
        assert len(slim.get_model_variables()) == 6
        restored = slim.get_variables_to_restore(exclude=["net/logits", "global_step"])
        assert "other" in names(restored)
        assert not [name for name in names(restored) if "logits" in name or "step" in name]
        assert names(slim.get_variables_to_restore(include=["net/logits"])) == [
            "net/logits/weights",
            "net/logits/biases",
        ]
        assert names(framework.get_variables_by_name("biases")) == ["net/logits/biases"]
        assert names(framework.get_variables("net", suffix="weights")) == [
            "net/conv1/weights",
            "net/logits/weights",
        ]
        assert framework.get_unique_variable("other").op.name == "other"
        kept = framework.filter_variables(v1.global_variables(), ["net/"], ["BatchNorm", "biases"])
        assert names(kept) == ["net/conv1/weights", "net/logits/weights"]


def test_collections_of_variables() -> None:
    with tf.Graph().as_default():
        by_name = {"weights": ["heavy"], "biases": ["light"]}
        slim.fully_connected(tf.ones([1, 2]), 3, variables_collections=by_name, scope="a")
        slim.fully_connected(tf.ones([1, 2]), 3, variables_collections=["all"], scope="b")
        assert names(v1.get_collection("heavy")) == ["a/weights"]
        assert names(v1.get_collection("light")) == ["a/biases"]
        assert names(v1.get_collection("all")) == ["b/weights", "b/biases"]
        with slim.arg_scope([slim.variable, slim.model_variable], device="/cpu:0"):
            made = slim.model_variable("c", [2], regularizer=slim.l2_regularizer(0.5))
        assert made.device.upper().endswith("CPU:0")
        assert len(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)) == 1
        assert slim.local_variable(0.0).op.name not in names(v1.global_variables())


def saved(directory: Path) -> tuple[str, Any]:
    with tf.Graph().as_default(), v1.Session() as session:
        weights = v1.get_variable("old/weights", [2, 3])
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(directory / "model")), session.run(weights)


@pytest.mark.parametrize("reshape", [False, True])
def test_a_network_begins_with_a_checkpoint(tmp_path: Path, reshape: bool) -> None:
    path, expected = saved(tmp_path)
    with tf.Graph().as_default(), v1.Session() as session:
        weights = v1.get_variable("new/weights", [3, 2] if reshape else [2, 3])
        missing = v1.get_variable("missing", [1], initializer=v1.ones_initializer())
        wanted = {"old/weights": weights, "missing": missing}
        init_fn = slim.assign_from_checkpoint_fn(path, wanted, True, reshape_variables=reshape)
        session.run(v1.global_variables_initializer())
        init_fn(session)
        np.testing.assert_array_equal(session.run(weights).ravel(), expected.ravel())
        with pytest.raises(ValueError, match=r"missing variable \[missing\]"):
            framework.assign_from_checkpoint(path, wanted)
        op, feeds = framework.assign_from_values({"missing": [7.0]})
        session.run(op, feeds)
        assert session.run(missing) == 7.0


def test_small_tools() -> None:
    with pytest.raises(ValueError, match="Expected scalar shape"):
        framework.assert_scalar(tf.ones([2]))
    assert framework.smart_cond(True, lambda: "then", lambda: "else") == "then"
    labels, predictions = framework.remove_squeezable_dimensions(tf.ones([3]), tf.ones([3, 1]))
    assert labels.shape == predictions.shape == [3]
    assert framework.is_tensor(labels)
    assert float(framework.reduce_sum_n([labels, predictions])) == 6.0
