"""`tf.contrib.learn.Estimator`: model functions and verbs of 2016, as programs wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib
from estimand.core.errors import ConfigError, InputError, ModelFnError

v1 = tf.compat.v1
learn = contrib.learn

X = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
Y = np.array([1.0, 3.0, 5.0, 7.0], np.float32)


def config(path: Path) -> Any:
    return learn.RunConfig(model_dir=str(path), tf_random_seed=1)


def line(x: Any, target: Any) -> Any:
    """A model function of 2016: any names, labels in every mode, a tuple."""
    y = tf.squeeze(x @ v1.get_variable("w", [1, 1], initializer=v1.zeros_initializer()), 1)
    y += v1.get_variable("b", [], initializer=v1.zeros_initializer())
    target = tf.reshape(target, [-1])
    loss = tf.reduce_mean(tf.square(y - target))
    train_op = contrib.layers.optimize_loss(
        loss, v1.train.get_global_step(), optimizer="SGD", learning_rate=0.1
    )
    return y, loss, train_op


def steps_by_hand(count: int) -> tuple[float, float]:
    w = b = 0.0
    for _ in range(count):
        error = w * X[:, 0] + b - Y
        w, b = w - 0.1 * np.mean(2 * error * X[:, 0]), b - 0.1 * np.mean(2 * error)
    return w, b


def test_fit_evaluate_and_predict_take_arrays(tmp_path: Path) -> None:
    estimator = learn.Estimator(model_fn=line, config=config(tmp_path))
    assert estimator.fit(X, Y, steps=3) is estimator
    estimator.partial_fit(X, Y.reshape(-1, 1))  # one more; a column of labels is a vector
    w, b = steps_by_hand(4)
    np.testing.assert_allclose(estimator.get_variable_value("w"), [[w]], rtol=1e-5)
    metrics = estimator.evaluate(
        x=X,
        y=Y,
        metrics={
            "mae": learn.MetricSpec(v1.metrics.mean_absolute_error),
            ("mse", None): lambda predictions, targets: tf.reduce_mean(
                (predictions - targets) ** 2
            ),
        },
    )
    error = w * X[:, 0] + b - Y
    assert metrics["global_step"] == 4
    assert metrics["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-4)
    assert metrics["mse"] == metrics["loss"] == pytest.approx(np.mean(error**2), rel=1e-4)
    rows = estimator.predict(X, batch_size=3)
    np.testing.assert_allclose(list(rows), w * X[:, 0] + b, rtol=1e-5)
    arrays = estimator.predict(X[:, 0], as_iterable=False)
    np.testing.assert_allclose(arrays, w * X[:, 0] + b, rtol=1e-5)


def test_scikit_learn_face(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        del params
        y, loss, train_op = line(features, labels)
        metrics = {"bias": v1.metrics.mean(y - labels)}
        return learn.ModelFnOps(mode, {"y": y, "twice": 2 * y}, loss, train_op, metrics)

    estimator = learn.Estimator(model_fn, tmp_path, config(tmp_path), {"rate": 1})
    regressor = learn.SKCompat(estimator).fit(X, Y, batch_size=4, steps=2)
    w, b = steps_by_hand(2)
    answers = regressor.predict(X)
    np.testing.assert_allclose(answers["twice"], 2 * (w * X[:, 0] + b), rtol=1e-5)
    score = regressor.score(X, Y)
    assert score["bias"] == pytest.approx(np.mean(w * X[:, 0] + b - Y), rel=1e-4)


def test_a_metric_is_given_what_its_keys_name() -> None:
    def weighted(predictions: Any, labels: Any, weights: Any = None) -> Any:
        return predictions, labels, weights

    spec = learn.MetricSpec(weighted, prediction_key="p", label_key="l", weight_key="w")
    made = spec.create_metric_ops({"w": 3}, {"l": 2, "m": 0}, {"p": 1, "q": 0})
    assert made == (1, 2, 3)
    assert learn.MetricSpec(weighted).create_metric_ops(None, 5, {"only": 4}) == (4, 5, None)
    with pytest.raises(ConfigError, match=r"give prediction_key, one of \['p', 'q'\]"):
        learn.MetricSpec(weighted).create_metric_ops(None, 5, {"p": 4, "q": 4})


def test_monitors_see_the_steps_and_end_training(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watch(learn.monitors.EveryN):
        def every_n_step_begin(self, step: int) -> list[str]:
            return ["w:0"]

        def every_n_step_end(self, step: int, outputs: Any) -> bool:
            seen.append((step, list(outputs)))
            return False

    monitors = [Watch(every_n_steps=2), learn.monitors.StopAtStep(last_step=5)]
    estimator = learn.Estimator(line, config=config(tmp_path)).fit(X, Y, monitors=monitors)
    assert seen == [(1, ["w:0"]), (3, ["w:0"]), (5, ["w:0"])]
    assert estimator.get_variable_value("global_step") == 5


def test_validation_ends_training_that_gets_no_better(tmp_path: Path) -> None:
    run = learn.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=2)
    monitor = learn.monitors.ValidationMonitor(
        X, -Y, every_n_steps=2, early_stopping_rounds=4, check_interval_secs=0
    )
    learn.Estimator(line, config=run).fit(X, Y, steps=50, monitors=[monitor])
    assert monitor.early_stopped
    # Away from the labels of validation it goes: the first evaluation stays the best.
    steps = [int(path.stem.split("-")[1]) for path in tmp_path.glob("model.ckpt-*.index")]
    assert max(steps) == monitor.best_step + 4
    assert monitor.best_metrics["global_step"] <= monitor.best_step


def test_an_experiment_measures_what_it_is_given(tmp_path: Path) -> None:
    def read() -> Any:
        return tf.data.Dataset.from_tensors((X, Y)).repeat()

    def experiment_fn(output_dir: str) -> Any:
        return learn.Experiment(
            learn.Estimator(line, model_dir=output_dir),
            read,
            read,
            eval_metrics={"mae": learn.MetricSpec(contrib.metrics.streaming_mean_absolute_error)},
            train_steps=2,
            eval_steps=1,
            train_monitors=[learn.monitors.PrintTensor(["w"])],
        )

    metrics, _ = learn.learn_runner.run(experiment_fn, str(tmp_path), "train_and_evaluate")
    w, b = steps_by_hand(2)
    assert metrics["mae"] == pytest.approx(np.mean(np.abs(w * X[:, 0] + b - Y)), rel=1e-4)


def test_an_export_answers(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        y, loss, train_op = line(features["x"], labels)
        alternatives = {"line": (learn.ProblemType.LINEAR_REGRESSION, {"scores": y})}
        return learn.ModelFnOps(mode, {"y": y}, loss, train_op, output_alternatives=alternatives)

    estimator = learn.Estimator(model_fn, config=config(tmp_path)).fit({"x": X}, Y, steps=1)

    def serving_input_fn() -> Any:
        x = v1.placeholder(tf.float32, [None, 1])
        return learn.InputFnOps({"x": x}, None, {"x": x})

    path = estimator.export_savedmodel(str(tmp_path / "export"), serving_input_fn)
    predict = contrib.predictor.from_saved_model(path)
    w, b = steps_by_hand(1)
    np.testing.assert_allclose(predict({"x": X})["outputs"], w * X[:, 0] + b, rtol=1e-5)


def test_mistakes_are_named() -> None:
    with pytest.raises(ModelFnError, match="takes no `params`"):
        learn.Estimator(line, params={"a": 1})
    estimator = learn.Estimator(line)
    with pytest.raises(InputError, match="Either x or input_fn"):
        estimator.fit(steps=1)
    with pytest.raises(InputError, match=r"as many rows as each other, given: {'x': 4, 'y': 3}"):
        estimator.fit(X, Y[:3], steps=1)
    with pytest.raises(ModelFnError, match=r"tuple \(predictions, loss, train_op\)"):
        learn.Estimator(lambda features, labels: None).fit(X, Y, steps=1)


def test_iterators_are_read_once(tmp_path: Path) -> None:
    estimator = learn.Estimator(line, config=config(tmp_path))
    estimator.fit(iter(X), iter(Y), batch_size=4)
    w, _ = steps_by_hand(1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), [[w]], rtol=1e-5)
