"""Mistakes that a newcomer makes, and exactly what is said about them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.interpreter import tracebacks
from tests.line import config, v1

ROWS = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
LABELS = (ROWS.sum(1) > 0).astype("int64")
fc = est.feature_column
COLUMNS = [fc.numeric_column("x", shape=(4,)), fc.numeric_column("age")]


def rows() -> tf.data.Dataset:
    features = {"x": ROWS, "age": ROWS[:, 0]}
    return tf.data.Dataset.from_tensor_slices((features, LABELS))


def batches() -> tf.data.Dataset:
    return rows().repeat().batch(32)


def said(error: BaseException) -> str:
    return re.sub(r"line \d+", "line N", str(error))


def train(function: Callable[..., Any], tmp_path: Path, input_fn: Any = batches, **more: Any):
    return est.Estimator(function, str(tmp_path), config(), **more).train(input_fn, steps=1)


def message(run: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as told:
        run()
    return said(told.value)


# Batches


@pytest.mark.parametrize("kind", ["canned", "model_fn"])
def test_batch_is_forgotten(tmp_path: Path, kind: str) -> None:
    def model_fn(features, labels, mode):
        return keras.layers.Dense(2)(features["x"])

    if kind == "canned":
        model: Any = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    else:
        model = est.Estimator(model_fn, str(tmp_path), config())
    assert message(lambda: model.train(rows, steps=1)) == (
        "input_fn gives single rows (features {'x': Tensor float32 (4,), 'age': Tensor float32 "
        "()}, labels Tensor int64 ()), but a model function takes batches. Let input_fn return "
        "dataset.batch(32)."
    )


def test_what_a_program_says_itself_is_not_explained_away(tmp_path: Path) -> None:
    """A feature of rank 0, such as the name of a file, need not be a forgotten batch."""

    def model_fn(features, labels, mode):
        raise ValueError("No model function unet found")

    song = {"waveform": tf.zeros([8, 2]), "name": tf.constant("song")}
    songs = tf.data.Dataset.from_tensors(song)
    model = est.Estimator(model_fn, str(tmp_path), config())
    assert message(lambda: next(model.predict(lambda: songs))) == "No model function unet found"


# Losses and optimizers


@pytest.mark.parametrize("method", ["minimize", "compute_gradients"])
def test_methods_of_v1_optimizers_are_asked_of_a_keras_one(tmp_path: Path, method: str) -> None:
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(keras.layers.Dense(1)(features["x"]))
        return getattr(keras.optimizers.Adam(0.1), method)(loss)

    assert message(lambda: train(model_fn, tmp_path)) == (
        f"model_fn (test_messages.py, line N): a Keras optimizer (Adam) has no {method}(). Write "
        "train_op = est.minimize(optimizer, loss), which takes Keras optimizers and those of "
        "tf.compat.v1.train."
    )


def test_the_loss_has_a_value_for_each_row(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        logits = keras.layers.Dense(2)(features["x"])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return est.EstimatorSpec(mode, None, loss, est.minimize(keras.optimizers.SGD(), loss))

    assert message(lambda: train(model_fn, tmp_path)) == (
        "The loss that model_fn gives to EstimatorSpec has 32 values, one for each row; it must "
        "be a single one. Reduce it before it is minimized: loss = tf.reduce_mean(loss)."
    )


def test_neither_loss_nor_train_op(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return est.EstimatorSpec(mode, predictions={"a": features["x"]})

    assert message(lambda: train(model_fn, tmp_path)) == (
        "Missing train_op. Missing loss. In TRAIN mode EstimatorSpec needs both: compute a "
        "scalar loss from labels and predictions, then return est.EstimatorSpec(mode, loss=loss, "
        "train_op=est.minimize(optimizer, loss))."
    )


@pytest.mark.parametrize("version", ["", "v1"])
def test_names_of_optimizers_go_in_any_case(version: str) -> None:
    from estimand.canned.optimizers import choose_optimizer, choose_v1_optimizer
    from estimand.canned.optimizers.v1 import V1Naming

    def choose(name: str) -> Any:
        return choose_v1_optimizer(name, 0.1, V1Naming()) if version else choose_optimizer(name)

    assert type(choose("rmsprop")) is type(choose("RMSProp"))
    assert message(lambda: choose("AdamW")) == (
        "Unsupported optimizer name: AdamW. Supported names are: ('Adagrad', 'Adam', 'Ftrl', "
        "'RMSProp', 'SGD'), in any case. For others give the optimizer itself: a Keras one such "
        "as keras.optimizers.AdamW(1e-3), or one of tf.compat.v1.train."
    )


# Keys


def test_a_feature_is_misspelt(tmp_path: Path) -> None:
    def model_fn(features, labels, mode, params):
        return features["agee"]

    with pytest.raises(KeyError) as told:
        train(model_fn, tmp_path, params={"units": 3})
    assert said(told.value) == (
        "model_fn (test_messages.py, line N): there is no feature 'agee'. There are features: "
        "'x', 'age'. Did you mean 'age'?"
    )


def test_a_feature_that_a_column_reads_is_misspelt(tmp_path: Path) -> None:
    model = est.LinearClassifier([fc.numeric_column("agee")], str(tmp_path), config=config())
    assert message(lambda: model.train(batches, steps=1)) == (
        "Feature agee is not in features dictionary. Column 'agee' reads the feature 'agee'; the "
        "features have: 'age' (float32 (None,)), 'x' (float32 (None, 4)). Did you mean 'age'?"
    )


def test_a_param_is_misspelt_in_a_model_function(tmp_path: Path) -> None:
    def model_fn(features, labels, mode, params):
        return params["unit"]

    assert message(lambda: train(model_fn, tmp_path, params={"units": 3})) == (
        "model_fn (test_messages.py, line N): there is no param 'unit'. There are params: "
        "'units'. Did you mean 'units'?"
    )


def test_a_param_is_misspelt_in_an_input_function(tmp_path: Path) -> None:
    def input_fn(params):
        return batches().take(params["row"])

    def model_fn(features, labels, mode, params):
        return None

    assert message(lambda: train(model_fn, tmp_path, input_fn, params={"rows": 3})) == (
        "input_fn (test_messages.py, line N): there is no param 'row'. There are params: 'rows'. "
        "Did you mean 'rows'?"
    )


def test_a_keyerror_that_is_about_something_else_stays_what_it_is(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return {}["elsewhere"] if "x" in features else dict(x=1)["x"]

    with pytest.raises(KeyError) as told:
        train(model_fn, tmp_path)
    assert "elsewhere" in str(told.value)


def test_a_metric_that_compare_fn_misspells_is_told_at_the_first_evaluation(tmp_path: Path) -> None:
    def better(best_eval_result, current_eval_result):
        return current_eval_result["acuracy"] > best_eval_result["acuracy"]

    exporter = est.BestExporter("best", lambda: None, compare_fn=better)
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    found = {"accuracy": 0.5, "loss": 0.1, "global_step": 3}
    with pytest.raises(KeyError) as told:
        exporter.export(model, str(tmp_path / "export"), "", found, False)
    assert said(told.value) == (
        "better (test_messages.py, line N): there is no metric 'acuracy'. There are metrics: "
        "'accuracy', 'loss', 'global_step'. Did you mean 'accuracy'?"
    )


# Labels


def test_a_size_that_varies_is_not_taken_for_missing_labels(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        raise ValueError("expected axis -1 to be 10, got shape (None, 1), mask=None")

    model = est.Estimator(model_fn, str(tmp_path), config())
    with pytest.raises(ValueError, match="expected axis -1 to be 10") as told:
        next(model.predict(batches))
    assert "labels" not in said(told.value)


@pytest.mark.parametrize("how", ["keras", "v1", "cast"])
def test_labels_are_used_in_predict(tmp_path: Path, how: str) -> None:
    def model_fn(features, labels, mode):
        logits = keras.layers.Dense(2)(features["x"])
        if how == "keras":
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        if how == "v1":
            return v1.losses.sparse_softmax_cross_entropy(labels, logits)
        return tf.cast(labels, tf.float32)

    model = est.Estimator(model_fn, str(tmp_path), config())
    with pytest.raises(ValueError) as told:
        next(model.predict(batches))
    assert said(told.value) == (
        "model_fn (test_messages.py, line N) failed in PREDICT mode, in which labels is None. "
        "Return before labels are used: if mode == est.ModeKeys.PREDICT: return "
        "est.EstimatorSpec(mode, predictions=...)."
    )
    assert told.value.__cause__ is not None


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (5, "Labels must be <= n_classes - 1, which is 2: this batch has the label 5 in row 11."),
        (-1, "Labels must be >= 0: this batch has the label -1 in row 11."),
    ],
)
def test_a_label_is_out_of_range(label: int, told: str, tmp_path: Path) -> None:
    def one_is_wrong():
        wrong = np.where(np.arange(64) == 11, label, LABELS)
        return tf.data.Dataset.from_tensor_slices(({"age": ROWS[:, 0]}, wrong)).batch(32)

    model = est.LinearClassifier(COLUMNS[1:], str(tmp_path), n_classes=3, config=config())
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.train(one_is_wrong, steps=1)
    assert message(lambda: model.train(one_is_wrong, steps=1)) == (
        f"{told} This model takes labels from 0 to 2; n_classes says so."
    )


def test_a_label_is_not_in_the_vocabulary(tmp_path: Path) -> None:
    def one_is_unknown():
        words = np.where(
            np.arange(64) == 11, "may bé".encode(), np.where(LABELS == 1, b"yes", b"no")
        )
        return tf.data.Dataset.from_tensor_slices(({"age": ROWS[:, 0]}, words)).batch(32)

    model = est.LinearClassifier(
        COLUMNS[1:], str(tmp_path), label_vocabulary=["no", "yes"], config=config()
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.train(one_is_unknown, steps=1)
    assert message(lambda: model.train(one_is_unknown, steps=1)) == (
        "label_vocabulary (no, yes) does not contain the label 'may bé' in row 11"
    )


def test_a_vocabulary_has_more_words_than_classes() -> None:
    words = ["no", "yes", "maybe"]
    assert message(lambda: est.LinearClassifier(COLUMNS, label_vocabulary=words)) == (
        "label_vocabulary should name 2 classes, given: ['no', 'yes', 'maybe']. Say that there "
        "are more: n_classes=3, or est.MultiClassHead(3)."
    )


@pytest.mark.parametrize("n_classes", [1, 0, -3])
def test_too_few_classes(n_classes: int) -> None:
    assert message(lambda: est.LinearClassifier(COLUMNS, n_classes=n_classes)) == (
        f"n_classes must be 2 or more, given: {n_classes}. Labels of yes and no are two classes: "
        "n_classes=2. To predict a number, use a regressor, such as est.DNNRegressor."
    )


# Tensors that have no values


@pytest.mark.parametrize(
    ("ask", "how"), [(lambda x: x.numpy(), ".numpy()"), (float, "float()"), (int, "int()")]
)
def test_a_tensor_is_asked_for_its_value(
    tmp_path: Path, ask: Callable[[tf.Tensor], Any], how: str
) -> None:
    def model_fn(features, labels, mode):
        return ask(features["x"])

    assert message(lambda: train(model_fn, tmp_path)).partition(" asks ")[2] == (
        f"a tensor for its value, {how}, but while a model function is traced, tensors have no "
        "values yet. Use TensorFlow functions "
        "(tf.where, tf.cond, tf.print), or run it step by step: est.RunConfig(run_eagerly=True)."
    )


def test_a_tensor_decides_an_if(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return 1 if tf.reduce_sum(features["x"]) > 0 else 2

    assert message(lambda: train(model_fn, tmp_path)) == (
        "model_fn (test_messages.py, line N) uses a tensor as a Python value (if, while, for, "
        "and, bool(...)), but while a model function is traced, tensors have no values yet. Use "
        "TensorFlow functions (tf.where, tf.cond, tf.print), or run it step by step: "
        "est.RunConfig(run_eagerly=True)."
    )


# Columns


def test_a_normalizer_gets_floats_for_a_column_of_integers(tmp_path: Path) -> None:
    column = fc.numeric_column("age", normalizer_fn=lambda age: (age - 40.0) / 10.0)
    layer = fc.input_layer({"age": tf.constant([30, 50])}, [column])
    assert layer.numpy().tolist() == [[-1.0], [1.0]]


def test_a_normalizer_that_wants_integers_gets_them() -> None:
    column = fc.numeric_column("age", normalizer_fn=lambda age: tf.bitwise.bitwise_and(age, 1))
    assert fc.input_layer({"age": tf.constant([3, 4])}, [column]).numpy().tolist() == [[1.0], [0.0]]


def test_a_normalizer_fails() -> None:
    def wrong(age):
        raise ValueError("too old")

    column = fc.numeric_column("age", normalizer_fn=wrong)
    assert message(lambda: fc.input_layer({"age": tf.constant([30, 50])}, [column])) == (
        "Column 'age': its normalizer_fn failed on float32 (2, 1): too old"
    )


# Names that are gone


def test_names_that_are_gone_say_what_is_there_instead() -> None:
    assert message(lambda: est.BoostedTreesClassifier) == (
        "estimand has no public name 'BoostedTreesClassifier'; in its place: "
        "`est.GradientBoostedTreesClassifier` (see docs/classical_models.md; needs pip install "
        "'estimand[forests]')."
    )
    assert message(lambda: est.DynamicRnnEstimator) == (
        "estimand has no public name 'DynamicRnnEstimator'; in its place: `est.RNNEstimator` and "
        "`est.RNNClassifier`."
    )
    assert message(lambda: est.Foo) == (
        "estimand has no public name 'Foo'; dir(estimand) lists them all."
    )


# Training that is done


def test_a_finished_training_says_so(tmp_path: Path, caplog) -> None:
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    model.train(batches, max_steps=2)
    assert not [r for r in caplog.records if r.name == "estimand"]
    model.train(batches, max_steps=2)
    [record] = [r for r in caplog.records if r.name == "estimand"]
    assert record.getMessage() == (
        f"train: nothing to do, {tmp_path} stands at step 2 already (max_steps=2). To train on, "
        "give a larger max_steps, or steps=...; to begin anew, another model_dir."
    )


def test_an_input_that_ends_too_early_is_told(tmp_path: Path, caplog) -> None:
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    model.train(lambda: rows().batch(32), max_steps=100)
    [record] = [r for r in caplog.records if r.name == "estimand"]
    assert record.getMessage() == (
        "train: the input ended at step 2, before step 100 was reached. To go through the data "
        "again and again, let input_fn return dataset.repeat()."
    )


# Things of the wrong kind


def returning(value: Any) -> Callable[..., Any]:
    def model_fn(features, labels, mode):
        return value

    return model_fn


def test_model_fn_returns_nothing(tmp_path: Path) -> None:
    assert message(lambda: train(returning(None), tmp_path)) == (
        "model_fn should return an EstimatorSpec. In mode 'train' it returned NoneType: None. Is "
        "a return missing in one of the branches? End each with return est.EstimatorSpec(mode, "
        "...)."
    )


def test_model_fn_returns_a_tuple(tmp_path: Path) -> None:
    assert message(lambda: train(returning((1.0, None)), tmp_path)) == (
        "model_fn should return an EstimatorSpec. In mode 'train' it returned tuple: (1.0, None). "
        "Return est.EstimatorSpec(mode, loss=..., train_op=...) or the like."
    )


def test_model_fn_returns_a_keras_model(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(1)], name="net")
    assert message(lambda: train(returning(model), tmp_path)) == (
        "model_fn should return an EstimatorSpec. In mode 'train' it returned Sequential: "
        "<Sequential name=net, built=False>. Call the Keras model on the features and make a spec "
        "of what it gives; or compile it and write est.keras.model_to_estimator(model)."
    )


def test_predictions_are_a_list(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return est.EstimatorSpec(mode, predictions=[features["age"]])

    model = est.Estimator(model_fn, str(tmp_path), config())
    assert message(lambda: next(model.predict(batches))).endswith(
        ". Give them names: {'name': tensor, ...}."
    )


def test_the_loss_depends_on_nothing(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        logits = keras.layers.Dense(2, name="logits")(features["x"])
        loss = tf.reduce_mean(tf.cast(tf.argmax(logits, 1), tf.float32))
        return est.minimize(keras.optimizers.Adam(), loss)

    assert message(lambda: train(model_fn, tmp_path)) == (
        "est.minimize: the loss depends on none of the trainable variables (logits/kernel:0, "
        "logits/bias:0). Compute it from what layers or variables of this model_fn give; "
        "tf.argmax, tf.round, comparisons and integers let no gradient through."
    )


def test_a_hook_is_given_as_a_class(tmp_path: Path) -> None:
    model = est.LinearClassifier(COLUMNS, str(tmp_path), config=config())
    assert message(lambda: model.train(batches, hooks=[est.StepCounterHook], steps=1)) == (
        "Hooks must be a SessionRunHook, given: <class 'estimand.hooks.step_counter."
        "StepCounterHook'>. That is the class; pass an instance: StepCounterHook(...)."
    )


def test_predict_keys_are_misspelt(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        return est.EstimatorSpec(mode, predictions={"class": features["age"]})

    model = est.Estimator(model_fn, str(tmp_path), config())
    assert message(lambda: next(model.predict(batches, predict_keys=["clas"]))) == (
        "Expected to run at least one output from dict_keys(['class']), provided ['clas']. Did "
        "you mean 'class'?"
    )


def test_a_receiver_function_is_called_instead_of_passed() -> None:
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 4])})
    assert message(receiver_fn) == (
        "A receiver function was called outside of an export. Pass the function itself, without "
        "(): export_saved_model(folder, receiver_fn)."
    )


def test_hidden_units_and_columns_are_swapped(tmp_path: Path) -> None:
    model = est.DNNClassifier(4, COLUMNS, str(tmp_path), config=config())
    assert message(lambda: model.train(batches, steps=1)) == (
        "hidden_units must be the numbers of units of the hidden layers, such as [64, 32]. Given: "
        "4. They come before feature_columns."
    )


# Tracebacks


def frames(error: BaseException) -> list[str]:
    return [Path(one.filename).name for one in traceback.extract_tb(error.__traceback__)]


def wrong_shapes(features, labels, mode):
    return features["x"] @ tf.ones([3, 2])


def test_tracebacks_show_the_lines_of_the_user(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(ValueError, match="Dimensions must be equal") as told:
        train(wrong_shapes, tmp_path)
    assert frames(told.value) == ["test_messages.py"] * 3
    shown = "".join(traceback.format_exception(told.value))
    assert 'features["x"] @ tf.ones([3, 2])' in shown
    assert re.search(
        r"\(\d+ frames of estimand, TensorFlow and Keras are folded; ESTIMAND_TRACEBACK=full "
        r"shows them\)",
        shown,
    )
    monkeypatch.setenv(tracebacks.SWITCH, "full")
    with pytest.raises(ValueError, match="Dimensions must be equal") as told:
        train(wrong_shapes, tmp_path)
    assert "estimator.py" in frames(told.value)
    assert "folded" not in "".join(traceback.format_exception(told.value))


def test_tracebacks_of_predict_are_folded_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as told:
        next(est.Estimator(wrong_shapes, str(tmp_path), config()).predict(batches))
    assert frames(told.value) == ["test_messages.py"] * 2


def test_the_cause_stays_reachable(tmp_path: Path) -> None:
    def model_fn(features, labels, mode):
        try:
            return {}["inner"]
        except KeyError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError, match="outer") as told:
        train(model_fn, tmp_path)
    assert isinstance(told.value.__cause__, KeyError)


def test_faults_of_this_package_are_not_folded(tmp_path: Path, monkeypatch) -> None:
    from estimand.estimator.training import starting_point

    monkeypatch.setattr(starting_point, "model_seed", None)
    with pytest.raises(TypeError, match="not callable") as told:
        train(wrong_shapes, tmp_path)
    assert "starting_point.py" in frames(told.value)
