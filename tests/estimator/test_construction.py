"""What an Estimator is made of: directories, configuration, params, model function."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from tests.line import batches, config, endless, estimator, features_only, model_fn

# ------------------------------------------------------------------ model_dir and config


def test_model_dir_given_twice_with_different_values_is_refused(tmp_path: Path) -> None:
    message = (
        "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
        "In constructor: '/a', in `RunConfig`: '/b'"
    )
    with pytest.raises(ValueError, match="set both in constructor") as error:
        est.Estimator(model_fn, "/a", config(model_dir="/b"))
    assert message in str(error.value)


def test_model_dir_given_twice_with_one_value_is_fine(tmp_path: Path) -> None:
    made = est.Estimator(model_fn, str(tmp_path), config(model_dir=str(tmp_path)))
    assert made.model_dir == made.config.model_dir == str(tmp_path)


@pytest.mark.parametrize("given", [None, ""])
def test_without_a_model_dir_a_temporary_one_is_used_and_named(given: str | None, caplog) -> None:
    made = est.Estimator(model_fn, given, config())
    assert os.path.isdir(made.model_dir)
    assert f"Using temporary folder as model directory: {made.model_dir}" in caplog.messages
    os.rmdir(made.model_dir)


def test_path_object_is_kept_as_text(tmp_path: Path) -> None:
    made = est.Estimator(model_fn, tmp_path)
    assert made.model_dir == str(tmp_path) and type(made.model_dir) is str


def test_config_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="config must be an instance of `RunConfig`, but provided"):
        est.Estimator(model_fn, "/a", {"model_dir": "/a"})


def test_changing_the_config_one_gets_changes_nothing(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    made.config._model_dir = "/elsewhere"
    assert made.config.model_dir == str(tmp_path)


def test_nothing_is_written_before_training(tmp_path: Path) -> None:
    estimator(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------ params


def test_params_are_copied_in_and_out(tmp_path: Path) -> None:
    def takes_params(features: Any, labels: Any, mode: str, params: Any) -> Any: ...

    given = {"layers": [4, 2]}
    made = est.Estimator(takes_params, str(tmp_path), params=given)
    given["layers"].append(1)
    made.params["layers"].append(7)
    assert made.params == {"layers": [4, 2]}


def test_params_may_be_hparams(tmp_path: Path) -> None:
    def takes_params(features: Any, labels: Any, mode: str, params: Any) -> Any:
        found.append(params.rate)
        return model_fn(features, labels, mode)

    found: list[float] = []
    made = est.Estimator(takes_params, str(tmp_path), config(), params=est.HParams(rate=0.5))
    made.train(batches, steps=1)
    assert found == [0.5]


# ------------------------------------------------------------------ the model function


def test_no_model_fn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model_fn must be provided to Estimator\."):
        est.Estimator(None, "/a")


def test_model_fn_must_take_features() -> None:
    with pytest.raises(ValueError, match=r"must include features argument\."):
        est.Estimator(lambda labels: None, "/a")


def test_argument_that_nobody_passes_is_refused() -> None:
    def wants_foo(features: Any, foo: Any) -> Any: ...

    with pytest.raises(ValueError, match=r"has following not expected args: \['foo'\]"):
        est.Estimator(wants_foo, "/a")


def test_params_that_model_fn_does_not_take_are_refused() -> None:
    with pytest.raises(ValueError, match="does not include params argument, but params") as error:
        est.Estimator(model_fn, "/a", params={"rate": 1})
    assert "{'rate': 1}" in str(error.value)


def test_params_argument_without_params_is_only_warned_of(tmp_path: Path, caplog) -> None:
    def takes_params(features: Any, labels: Any, mode: str, params: Any) -> est.EstimatorSpec:
        assert params == {}
        return model_fn(features, labels, mode)

    made = est.Estimator(takes_params, str(tmp_path), config())
    assert any("includes params argument, but params are not passed" in m for m in caplog.messages)
    made.train(batches, steps=1)


def test_labels_that_model_fn_does_not_take_are_refused(tmp_path: Path) -> None:
    def no_labels(features: Any, mode: str) -> Any: ...

    message = "model_fn does not take labels, but input_fn returns labels"
    with pytest.raises(ValueError, match=message):
        estimator(tmp_path, no_labels).train(batches, steps=1)


class CallableModel:
    def __call__(self, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return model_fn(features, labels, mode)

    def method(self, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return model_fn(features, labels, mode)

    @staticmethod
    def static(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return model_fn(features, labels, mode)


def with_rate(rate: float, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    assert rate == 0.5
    return model_fn(features, labels, mode)


def keyword_only(*, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    return model_fn(features, labels, mode)


def anything(features: Any, **others: Any) -> est.EstimatorSpec:
    assert others.keys() == {"labels", "mode", "params", "config"}
    return model_fn(features, others["labels"], others["mode"])


def another_order(mode: str, labels: Any, config: Any, features: Any) -> est.EstimatorSpec:
    assert isinstance(config, est.RunConfig)
    return model_fn(features, labels, mode)


@pytest.mark.parametrize(
    "function",
    [
        model_fn,
        CallableModel(),
        CallableModel().method,
        CallableModel.static,
        functools.partial(with_rate, 0.5),
        functools.partial(with_rate, rate=0.5),
        functools.partial(functools.partial(with_rate, rate=0.1), rate=0.5),
        keyword_only,
        anything,
        another_order,
        lambda features, labels, mode: model_fn(features, labels, mode),
    ],
    ids=[
        "function", "callable object", "bound method", "static method", "partial by position",
        "partial by keyword", "partial of partial", "keywords only", "any keywords",
        "another order", "lambda",
    ],
)  # fmt: skip
def test_form_of_a_model_function(tmp_path: Path, function: Any) -> None:
    made = estimator(tmp_path, function).train(batches, steps=1)
    assert made.get_variable_value("global_step") == 1


def test_model_function_of_features_alone(tmp_path: Path) -> None:
    def of_features(features: Any) -> est.EstimatorSpec:
        return model_fn(features, features["x"], est.ModeKeys.TRAIN)

    estimator(tmp_path, of_features).train(features_only, steps=1)


def test_mode_and_config_are_what_they_should_be(tmp_path: Path) -> None:
    seen = []

    def looks(features: Any, labels: Any, mode: str, config: Any) -> est.EstimatorSpec:
        seen.append((mode, labels is None, config.model_dir))
        return model_fn(features, labels, mode)

    made = estimator(tmp_path, looks).train(batches, steps=1)
    made.evaluate(batches)
    list(made.predict(batches))
    assert [(mode, no_labels) for mode, no_labels, _ in seen] == [
        ("train", False),
        ("eval", False),
        ("infer", True),
    ]
    assert {directory for *_, directory in seen} == {str(tmp_path)}


def test_model_function_builds_a_graph_and_is_called_once_per_phase(tmp_path: Path) -> None:
    calls = []

    def counts(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        calls.append((mode, tf.executing_eagerly()))
        return model_fn(features, labels, mode)

    made = estimator(tmp_path, counts).train(endless, steps=50)
    made.evaluate(batches)
    list(made.predict(batches))
    assert calls == [("train", False), ("eval", False), ("infer", False)]


def test_seed_then_global_step_then_input_fn_then_model_fn(tmp_path: Path) -> None:
    order = []

    def input_fn() -> tf.data.Dataset:
        order.append("input_fn")
        return batches()

    def looks(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        assert tf.compat.v1.train.get_global_step() is not None
        order.append("model_fn")
        return model_fn(features, labels, mode)

    made = estimator(tmp_path, looks, tf_random_seed=3)
    made.train(input_fn, steps=1)
    made.evaluate(input_fn)
    assert order == ["input_fn", "model_fn"] * 2


def test_public_model_fn_takes_features_labels_mode_config(tmp_path: Path) -> None:
    made = estimator(tmp_path)
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = {"x": tf.constant([1.0])}
        spec = made.model_fn(features, tf.constant([2.0]), "train", made.config)
    assert isinstance(spec, est.EstimatorSpec) and spec.mode == "train"


# ------------------------------------------------------------------ subclasses


def test_names_that_subclasses_touch_are_there(tmp_path: Path) -> None:
    made = est.Estimator(model_fn, str(tmp_path), config(tf_random_seed=3))
    assert isinstance(made._config, est.RunConfig) and made._config.tf_random_seed == 3
    assert made._params == {}
    assert made._model_fn is model_fn
    assert made._warm_start_settings is None
    assert made._session_config.allow_soft_placement
    assert made._session_config.graph_options.rewrite_options.meta_optimizer_iterations == 1
    assert callable(made._call_model_fn) and callable(made._create_and_assert_global_step)
    est.Estimator._assert_members_are_not_overridden(made)


def test_overridden_call_model_fn_is_used_by_every_verb(tmp_path: Path) -> None:
    class Renaming(est.Estimator):
        def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any = None) -> Any:
            modes.append(mode)
            return super()._call_model_fn({"x": features["other"]}, labels, mode, config)

    def other() -> tf.data.Dataset:
        return batches().map(lambda features, labels: ({"other": features["x"]}, labels))

    modes: list[str] = []
    made = Renaming(model_fn, str(tmp_path), config()).train(other, steps=1)
    made.evaluate(other)
    assert len(list(made.predict(other))) == 4
    assert modes == ["train", "eval", "infer"]


def test_overridden_train_may_add_to_it(tmp_path: Path) -> None:
    class Twice(est.Estimator):
        def train(self, input_fn: Any, *args: Any, **kwargs: Any) -> est.Estimator:
            super().train(input_fn, *args, **kwargs)
            return super().train(input_fn, *args, **kwargs)

    made = Twice(model_fn, str(tmp_path), config()).train(batches, steps=1)
    assert made.get_variable_value("global_step") == 2


def test_overridden_global_step_is_used(tmp_path: Path) -> None:
    class StartsAtForty(est.Estimator):
        def _create_and_assert_global_step(self, graph: tf.Graph) -> tf.Variable:
            return tf.compat.v1.get_variable(
                tf.compat.v1.GraphKeys.GLOBAL_STEP,
                shape=[],
                dtype=tf.int64,
                initializer=tf.compat.v1.constant_initializer(40),
                trainable=False,
                collections=[
                    tf.compat.v1.GraphKeys.GLOBAL_VARIABLES,
                    tf.compat.v1.GraphKeys.GLOBAL_STEP,
                ],
            )

    made = StartsAtForty(model_fn, str(tmp_path), config()).train(batches, steps=2)
    assert made.get_variable_value("global_step") == 42


def test_overridden_latest_checkpoint_is_what_evaluate_uses(tmp_path: Path) -> None:
    class First(est.Estimator):
        def latest_checkpoint(self) -> str:
            return os.path.join(self.model_dir, "model.ckpt-0")

    estimator(tmp_path).train(batches)
    made = First(model_fn, str(tmp_path), config())
    assert made.evaluate(batches)["global_step"] == 0


def test_subclass_that_passes_its_own_model_fn(tmp_path: Path) -> None:
    class Line(est.Estimator):
        def __init__(self, model_dir: str) -> None:
            super().__init__(self._line, model_dir, config())

        def _line(self, features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            return model_fn(features, labels, mode)

        def weight(self) -> float:
            return float(self.get_variable_value("w"))

    assert Line(str(tmp_path)).train(batches, steps=1).weight() > 1
