"""Checkpoints of `tf.compat.v1.estimator` continue in today's canned models, slots included."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.canned import optimizers, v1_names
from estimand.engine.checkpoints.contents import CheckpointContents
from estimand.engine.checkpoints.partitioned_slots import parts_of
from estimand.engine.checkpoints.substitutes import Source
from tests.canned import cases
from tests.canned.conftest import FIXTURES, Continued

C = cases.columns()
_v1 = tf.compat.v1.train

# The same models as the v1 cases, with v1's settings spelled out.
TODAY: dict[str, Callable[[dict[str, Any]], est.Estimator]] = {
    "v1_dnn_classifier": lambda more: est.DNNClassifier(
        [6], C.deep, optimizer=optimizers.Adagrad(0.05), loss_reduction="sum", **more
    ),
    "v1_dnn_regressor_batch_norm_adam": lambda more: est.DNNRegressor(
        [6, 4],
        C.deep,
        batch_norm=True,
        optimizer=optimizers.Adam(0.01, epsilon=1e-8),
        loss_reduction="sum",
        **more,
    ),
    "v1_dnn_classifier_rmsprop": lambda more: est.DNNClassifier(
        [6], C.deep, n_classes=3, optimizer=optimizers.RMSprop(0.05, epsilon=1e-10), **more
    ),
    "v1_linear_classifier": lambda more: est.LinearClassifier(
        C.wide,
        weight_column="weight",
        label_vocabulary=["no", "yes"],
        loss_reduction="sum",
        **more,
    ),
    "v1_linear_regressor_momentum": lambda more: est.LinearRegressor(
        C.wide, optimizer=optimizers.SGD(0.001, momentum=0.9), loss_reduction="sum", **more
    ),
    "v1_wide_deep_classifier": lambda more: est.DNNLinearCombinedClassifier(
        linear_feature_columns=C.wide,
        dnn_feature_columns=C.deep,
        dnn_hidden_units=[6],
        batch_norm=True,
        loss_reduction="sum",
        **more,
    ),
    "v1_wide_deep_regressor_adam_twice": lambda more: est.DNNLinearCombinedRegressor(
        linear_feature_columns=C.wide,
        linear_optimizer="Adam",
        dnn_feature_columns=C.deep,
        dnn_optimizer="Adam",
        dnn_hidden_units=[6],
        loss_reduction="sum",
        **more,
    ),
    "v1_dnn_classifier_shared_embedding_columns": lambda more: est.DNNClassifier(
        [4],
        [C.x, *cases.shared(tf.feature_column.shared_embeddings)],
        optimizer=optimizers.Adagrad(0.05),
        loss_reduction="sum",
        **more,
    ),
    "v1_dnn_classifier_partitioned": lambda more: est.DNNClassifier(
        [6], C.deep, optimizer=optimizers.Adagrad(0.05), loss_reduction="sum", **more
    ),
    "v1_linear_regressor_partitioned_momentum": lambda more: est.LinearRegressor(
        C.wide, optimizer=optimizers.SGD(0.001, momentum=0.9), loss_reduction="sum", **more
    ),
    "v1_baseline_classifier": lambda more: est.BaselineClassifier(
        n_classes=3, loss_reduction="sum", **more
    ),
}


# Parts are joined before anything else sees them: one deep model and one linear will do.
MORE_IN_PARTS = {"v1_linear_classifier_partitioned", "v1_wide_deep_classifier_partitioned"}


def test_every_v1_case_is_tried() -> None:
    of_v1 = {name for name in cases.CASES if name.startswith("v1_")}
    assert set(TODAY) == of_v1 - MORE_IN_PARTS


@pytest.mark.sample(3)
@pytest.mark.parametrize("continued", TODAY, indirect=True)
def test_training_goes_on_with_the_old_slots(
    continued: Continued, request: pytest.FixtureRequest
) -> None:
    make = TODAY[request.node.callspec.params["continued"]]
    estimator = make({"model_dir": continued.directory})
    estimator.train(lambda: continued.case.input_fn(repeat=True), steps=cases.MORE_STEPS)
    got = estimator.evaluate(continued.case.input_fn)
    expected = continued.expected["evaluate_after_more"]
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        # v1 took the area under this curve by another rule than Keras.
        relative = 1e-2 if name == "auc_precision_recall" else 1e-3
        assert float(got[name]) == pytest.approx(value, rel=relative), name
    saved = {name for name, _ in tf.train.list_variables(continued.directory)}
    assert not any("/t_0/" in name or "/part_0/" in name for name in saved)


@pytest.mark.parametrize("continued", ["v1_dnn_classifier"], indirect=True)
def test_another_optimizer_than_the_checkpoints_is_refused(continued: Continued) -> None:
    estimator = est.DNNClassifier(
        [6], C.deep, optimizer="Adam", model_dir=continued.directory, loss_reduction="sum"
    )
    with pytest.raises(ValueError, match="Key training/Adam/dnn/logits/kernel/m not found"):
        estimator.train(lambda: continued.case.input_fn(repeat=True), steps=1)


# And back: checkpoints of today in the models of v1

SETTINGS: dict[str, tuple[Any, Any, float]] = {
    # today's optimizer, v1's with the same settings, how near their steps are
    "Adam": (optimizers.Adam(0.01, epsilon=1e-8), lambda: _v1.AdamOptimizer(0.01), 1e-4),
    "Momentum": (
        optimizers.SGD(0.02, momentum=0.8),
        lambda: _v1.MomentumOptimizer(0.02, 0.8),
        1e-5,
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", SETTINGS)
def test_v1_models_go_on_from_checkpoints_of_today(kind: str, tmp_path: Path) -> None:
    today, before, near = SETTINGS[kind]
    case = cases.CASES["dnn_classifier_sgd"]
    columns = [C.x, C.deep[2]]

    def input_fn() -> tf.data.Dataset:
        return case.input_fn(repeat=True)

    first = est.DNNClassifier([3], columns, model_dir=tmp_path / "one", optimizer=today)
    first.train(input_fn, steps=10)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    other = est.compat.v1.DNNClassifier(
        [3],
        columns,
        model_dir=tmp_path / "two",
        optimizer=before,
        loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
    )
    first.train(input_fn, steps=10)
    other.train(input_fn, steps=10)
    for name in ("dnn/logits/kernel", "dnn/hiddenlayer_0/kernel"):
        np.testing.assert_allclose(
            other.get_variable_value(name), first.get_variable_value(name), rtol=near, atol=near
        )


# The table itself


def test_slots_are_looked_for_under_all_v1_spellings() -> None:
    name = "training/Ftrl/linear/linear_model/x/weights/linear"
    for old in (
        "linear/linear_model/x/weights/part_0/Ftrl_1",
        "linear/linear_model/x/weights/Ftrl_1",
    ):
        assert v1_names.source_of(name, {old}) == Source((old,))


def test_a_checkpoint_of_today_is_never_read_as_v1() -> None:
    stored = {"w/Adagrad", "training/Adagrad/learning_rate", "global_step"}
    assert v1_names.source_of("training/Adagrad/w/accumulator", stored) is None


def test_beta_is_the_root_of_its_power() -> None:
    stored = {"dnn/head/beta1_power", "global_step"}
    source = v1_names.source_of("training/Adam/beta_1", stored, {"training/Adam/beta_1": 0.9})
    assert source is not None
    assert source.names == ("dnn/head/beta1_power", "global_step")
    assert source.compute([0.85**41, 40]) == pytest.approx(0.85)


def test_a_power_that_has_vanished_leaves_beta_as_given() -> None:
    stored = {"head/beta1_power", "global_step"}
    source = v1_names.source_of("training/Adam/beta_1", stored, {"training/Adam/beta_1": 0.9})
    assert source is not None
    assert source.compute([0.0, 5000]) == 0.9


def test_the_second_optimizer_counts_from_the_global_step() -> None:
    assert v1_names.source_of("training/Ftrl/iter", {"global_step"}) == Source(("global_step",))


def test_shared_embeddings_were_inside_the_input_layer() -> None:
    old = "dnn/input_from_feature_columns/input_layer/a_b_shared_embedding/embedding_weights"
    assert v1_names.source_of("a_b_shared_embedding", {old}) == Source((old,))


def test_a_v1_slot_is_found_under_todays_name() -> None:
    stored = {"training/Adagrad/w/accumulator", "training/RMSprop/w/rms"}
    found = v1_names.source_in_v2("w/part_0/Adagrad", stored)
    assert found == Source(("training/Adagrad/w/accumulator",))
    assert v1_names.source_in_v2("w/t_0/RMSProp", stored) == Source(("training/RMSprop/w/rms",))
    assert v1_names.source_in_v2("w/RMSProp_1", stored) == Source((), 0.0)
    assert v1_names.source_in_v2("w/Ftrl", stored) is None
    assert v1_names.source_in_v2("w", stored) is None


def test_the_second_adams_power_is_that_of_its_own_beta() -> None:
    stored = {"training/Adam_1/beta_2", "training/Adam/beta_2", "global_step"}
    source = v1_names.source_in_v2("head/beta2_power_1", stored)
    assert source is not None
    assert source.names == ("training/Adam_1/beta_2", "global_step")
    assert source.compute([0.9, 3]) == pytest.approx(0.9**4)


def test_what_was_in_parts_is_told_as_a_whole() -> None:
    directory = FIXTURES / "v1_linear_classifier_partitioned" / "model_dir"
    contents = CheckpointContents(directory)
    names = [tensor.name for tensor in contents.tensors]
    assert "linear/linear_model/word/weights/part_0/Ftrl" in names
    assert not any("part_1" in name or "part_2" in name for name in names)
    linear = contents.value("linear/linear_model/word/weights/part_0/Ftrl_1")
    weights = contents.value("linear/linear_model/word/weights")
    # Ftrl moves a weight only where it has summed up something, and against its sign.
    np.testing.assert_array_equal(np.sign(linear), -np.sign(weights))
    assert np.count_nonzero(linear) == 4


def test_variables_called_like_parts_are_left_alone() -> None:
    shapes = {"tower/part_0/kernel": [4], "tower/part_1/kernel": [4]}
    assert parts_of("tower/part_0/kernel", shapes) == []
