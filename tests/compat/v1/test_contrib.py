"""The parts of tf.contrib: names, numbers and variables as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib

v1 = tf.compat.v1


def test_what_is_not_offered_is_told_with_what_is() -> None:
    with pytest.raises(
        AttributeError, match=r"tf.contrib.ffmpeg is not offered. Offered are: .*tpu"
    ):
        contrib.ffmpeg  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'rev_block'"):
        contrib.layers.rev_block  # noqa: B018


@pytest.mark.parametrize(
    ("uniform", "mode", "variance"),
    [
        (True, "FAN_AVG", 2.0 / (300 + 100)),
        (True, "FAN_IN", 1.0 / 300),
        (False, "FAN_OUT", 1.0 / 100),
    ],
)
def test_initializers_have_the_variance_of_their_fan(
    uniform: bool, mode: str, variance: float
) -> None:
    make = contrib.layers.variance_scaling_initializer(1.0, mode, uniform, seed=3)
    numbers = make([300, 100]).numpy()
    assert numbers.var() == pytest.approx(variance, rel=0.03)
    assert numbers.mean() == pytest.approx(0.0, abs=3e-3)


def test_xavier_of_a_convolution_counts_its_area() -> None:
    numbers = contrib.layers.xavier_initializer(seed=1)([3, 3, 16, 32]).numpy()
    limit = np.sqrt(6.0 / (9 * 16 + 9 * 32))
    assert np.abs(numbers).max() == pytest.approx(limit, rel=0.01)


def test_regularizers() -> None:
    weights = np.array([[1.0, -2.0], [0.5, 0.0]], np.float32)
    l1, l2 = 0.1 * np.abs(weights).sum(), 0.2 * (weights**2).sum() / 2
    layers = contrib.layers
    assert float(layers.l1_regularizer(0.1)(tf.constant(weights))) == pytest.approx(l1)
    assert float(layers.l2_regularizer(0.2)(tf.constant(weights))) == pytest.approx(l2)
    both = layers.l1_l2_regularizer(0.1, 0.2)(tf.constant(weights))
    assert float(both) == pytest.approx(l1 + l2)
    assert layers.l2_regularizer(0.0)(tf.constant(weights)) is None
    assert layers.sum_regularizer([]) is None
    with pytest.raises(ValueError, match="scale cannot be an integer: 1"):
        layers.l2_regularizer(1)
    with pytest.raises(ValueError, match="Setting a scale less than 0 on a regularizer: -1"):
        layers.l1_regularizer(-1.0)


def test_variables_and_numbers_of_the_layers() -> None:
    x = np.random.RandomState(0).normal(size=(4, 6)).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        hidden = contrib.layers.fully_connected(
            x, 3, weights_regularizer=contrib.layers.l2_regularizer(0.5)
        )
        normal = contrib.layers.layer_norm(hidden + x[:, :3])
        (penalty,) = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
        names = [variable.op.name for variable in v1.global_variables()]
        session.run(v1.global_variables_initializer())
        weights, made, norm, loss = session.run([v1.global_variables()[0], hidden, normal, penalty])
    assert names == [
        "fully_connected/weights",
        "fully_connected/biases",
        "LayerNorm/beta",
        "LayerNorm/gamma",
    ]
    np.testing.assert_allclose(made, np.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6)
    given = made + x[:, :3]
    spread = (given - given.mean(1, keepdims=True)) / given.std(1, keepdims=True)
    np.testing.assert_allclose(norm, spread, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx(0.25 * (weights**2).sum(), rel=1e-5)


def test_tables_of_words() -> None:
    table = contrib.lookup.index_table_from_tensor(["a", "b"], num_oov_buckets=1)
    assert table.lookup(tf.constant(["b", "a", "z"])).numpy().tolist() == [1, 0, 2]
    table = contrib.lookup.index_table_from_tensor(["a", "b"], default_value=-7)
    assert table.lookup(tf.constant(["b", "z"])).numpy().tolist() == [1, -7]
    back = contrib.lookup.index_to_string_table_from_tensor(["a", "b"])
    assert back.lookup(tf.constant([1, 5], tf.int64)).numpy().tolist() == [b"b", b"UNK"]


def test_tables_of_files(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("a\nb\n")
    table = contrib.lookup.index_table_from_file(str(file), num_oov_buckets=1)
    assert table.lookup(tf.constant(["b", "z"])).numpy().tolist() == [1, 2]
    back = contrib.lookup.index_to_string_table_from_file(str(file))
    assert back.lookup(tf.constant([0], tf.int64)).numpy().tolist() == [b"a"]


def test_two_labels_trained_by_one_head(tmp_path: Path) -> None:
    random = np.random.RandomState(1)
    x = random.normal(size=(64, 3)).astype(np.float32)
    labels = {
        "click": (x[:, 0] > 0).astype(np.int32)[:, None],
        "price": x.sum(axis=1, keepdims=True),
    }
    head = contrib.estimator.multi_head(
        [
            contrib.estimator.binary_classification_head(name="click"),
            contrib.estimator.regression_head(name="price"),
        ],
        head_weights=[1.0, 0.5],
    )

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        shared = est.compat.v1.layers.dense(features["x"], 8, activation=tf.nn.relu)
        logits = est.compat.v1.layers.dense(shared, head.logits_dimension)
        return head.create_estimator_spec(
            features,
            mode,
            logits,
            labels,
            train_op_fn=lambda loss: v1.train.AdamOptimizer(0.05).minimize(
                loss, v1.train.get_global_step()
            ),
        )

    estimator = est.Estimator(model_fn, config=est.RunConfig(str(tmp_path), progress=False))
    data = tf.data.Dataset.from_tensor_slices
    estimator.train(lambda: data(({"x": x}, labels)).repeat().batch(32), steps=100)
    result = estimator.evaluate(lambda: data(({"x": x}, labels)).batch(32))
    assert result["accuracy/click"] > 0.9
    assert result["average_loss/price"] < 0.3
    assert result["loss"] == pytest.approx(
        result["loss/click"] + 0.5 * result["loss/price"], rel=1e-4
    )


def test_gradients_are_clipped_before_they_are_applied() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=[3.0, 4.0])
        optimizer = contrib.estimator.clip_gradients_by_norm(
            v1.train.GradientDescentOptimizer(1.0), clip_norm=1.0
        )
        step = optimizer.minimize(tf.reduce_sum(10.0 * tf.square(variable)))
        session.run(v1.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(variable), [3.0 - 0.6, 4.0 - 0.8], rtol=1e-5)


def test_a_predictor_answers_from_an_export(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        y = features["x"] * v1.get_variable("w", initializer=2.0)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.reduce_mean(y)
        train_op = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, config=est.RunConfig(str(tmp_path), progress=False))
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [1.0]}), steps=1)
    receiver = est.export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None], tf.float32)}
    )
    predict = contrib.predictor.from_estimator(estimator, receiver)
    assert predict({"x": [1, 2]})["y"].tolist() == [2.0, 4.0]


def test_mirrored_strategy_by_number_of_gpus() -> None:
    assert contrib.distribute.MirroredStrategy(num_gpus=0).num_replicas_in_sync == 1
    with pytest.raises(ValueError, match="asks for more GPUs than there are"):
        contrib.distribute.MirroredStrategy(num_gpus=64)
    with pytest.raises(ValueError, match="only one of `devices` and `num_gpus`"):
        contrib.distribute.MirroredStrategy(["/cpu:0"], num_gpus=0)
