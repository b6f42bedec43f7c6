"""`tf.contrib.predictor`, where graphs are the default and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1


def export(folder: Path) -> str:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        w = v1.get_variable("w", initializer=2.0)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder / "1"), {"x": x}, {"y": x * w})
    return str(folder / "1")


def test_it_answers_while_a_graph_is_the_default(tmp_path: Path) -> None:
    path = export(tmp_path)
    with tf.Graph().as_default():
        predict = contrib.predictor.from_saved_model(path)
        assert predict({"x": [1, 2]})["y"].tolist() == [2.0, 4.0]
    assert predict({"x": [3.0]})["y"].tolist() == [6.0]
    assert predict.session.run("w/Read/ReadVariableOp:0") == 2.0
    assert list(predict.feed_tensors) == ["x"] and predict.graph is predict.session.graph


def test_tensors_by_name_and_wrong_names(tmp_path: Path) -> None:
    path = export(tmp_path)
    by_name = contrib.predictor.from_saved_model(
        path, input_names={"given": "x:0"}, output_names={"w": "w/Read/ReadVariableOp:0"}
    )
    assert by_name({}) == {"w": 2.0}
    with pytest.raises(ValueError, match=r"no signature 'other'. It has .*serving_default"):
        contrib.predictor.from_saved_model(path, "other")
    with pytest.raises(ValueError, match=r"unexpected keys in input_dict: \['z'\]"):
        by_name({"z": 1})
