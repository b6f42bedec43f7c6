"""The private names that code in the wild imports do what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.private import (
    base_head,
    canned_heads,
    eval_events,
    executor,
    export,
    gc,
    optimizers,
    training,
    util,
)
from estimand.engine.events import read_scalars
from estimand.heads import Head

v1 = tf.compat.v1


def paths(*versions: int) -> list[gc.Path]:
    return [gc.Path(f"/m/{version}", version) for version in versions]


def versions(chosen: list[gc.Path]) -> list[int]:
    return sorted(path.export_version or 0 for path in chosen)


def test_policies_of_garbage_collection() -> None:
    given = paths(0, 4, 5, 8, 9, 12)
    assert versions(gc._largest_export_versions(2)(given)) == [9, 12]
    assert versions(gc._mod_export_version(4)(given)) == [0, 4, 8, 12]
    assert versions(gc._one_of_every_n_export_versions(3)(paths(0, 1, 3, 5, 6, 7, 8, 33))) == [
        3,
        6,
        8,
        33,
    ]
    both = gc._union(gc._largest_export_versions(1), gc._mod_export_version(5))
    assert versions(both(given)) == [0, 5, 12]
    assert versions(gc._negation(both)(given)) == [4, 8, 9]


def test_paths_with_a_version(tmp_path: Path) -> None:
    for name in ("10", "9", "notes"):
        (tmp_path / name).mkdir()

    def parser(path: gc.Path) -> gc.Path | None:
        name = Path(path.path).name
        return path._replace(export_version=int(name)) if name.isdigit() else None

    assert versions(gc._get_paths(str(tmp_path), parser)) == [9, 10]


def test_an_older_head_sums_its_loss_and_tells_what_it_is_made_of() -> None:
    head = canned_heads._binary_logistic_head_with_sigmoid_cross_entropy_loss()
    logits, labels = np.array([[2.0], [-1.0]], np.float32), np.array([[1], [1]])
    found = head.create_loss({}, "eval", tf.constant(logits), tf.constant(labels))
    each = np.log1p(np.exp(-logits))
    np.testing.assert_allclose(found.unreduced_loss, each, rtol=1e-6)
    np.testing.assert_allclose(found.training_loss, each.sum(), rtol=1e-6)
    assert isinstance(head, Head)
    assert isinstance(head, canned_heads._Head)


def test_a_head_of_ones_own_trains(tmp_path: Path) -> None:
    class Own(canned_heads._Head):
        name = None
        logits_dimension = 1

        def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
            return tf.reduce_mean(tf.square(logits - labels))

        def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None):  # type: ignore[no-untyped-def, override]
            loss = self.create_loss(features, mode, logits, labels)
            train_op = optimizer.minimize(loss, v1.train.get_global_step())
            return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = est.compat.v1.layers.dense(features["x"], 1)
        optimizer = optimizers.get_optimizer_instance("SGD", 0.1)
        return Own().create_estimator_spec(features, mode, logits, labels, optimizer)

    x = np.ones((4, 1), np.float32)
    config = est.RunConfig(str(tmp_path), progress=False)
    estimator = est.Estimator(model_fn, config=config)
    fn = est.inputs.numpy_input_fn({"x": x}, 3 * x, num_epochs=None, shuffle=False)
    estimator.train(fn, steps=50)
    weights = estimator.get_variable_value("dense/kernel") + estimator.get_variable_value(
        "dense/bias"
    )
    np.testing.assert_allclose(weights, [[3.0]], atol=1e-3)


def test_optimizers_by_name_by_function_and_as_given() -> None:
    given = v1.train.AdamOptimizer(0.1)
    assert optimizers.get_optimizer_instance(given) is given
    assert optimizers.get_optimizer_instance(lambda: given) is given
    assert isinstance(optimizers.get_optimizer_instance("Adagrad", 0.1), v1.train.AdagradOptimizer)
    with pytest.raises(ValueError, match="Unsupported optimizer name: unknown"):
        optimizers.get_optimizer_instance("unknown", 0.1)
    with pytest.raises(ValueError, match="learning_rate must be specified when opt is string"):
        optimizers.get_optimizer_instance("Adagrad")
    with pytest.raises(ValueError, match="not an Optimizer instance"):
        optimizers.get_optimizer_instance((1, 2))


def small_estimator(model_dir: Path) -> est.Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [])
        loss = tf.reduce_mean(tf.square(w * features["x"] - labels))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return est.Estimator(model_fn, config=est.RunConfig(str(model_dir), progress=False))


def batches() -> tf.data.Dataset:
    x = np.ones(8, np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(4).repeat()


def test_an_executor_runs_locally_with_hooks_of_its_own(tmp_path: Path) -> None:
    class Count(v1.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.steps += 1

    hook = Count()
    train_spec, eval_spec = est.TrainSpec(batches, max_steps=6), est.EvalSpec(batches, steps=1)
    made = executor._TrainingExecutor(
        small_estimator(tmp_path), train_spec, eval_spec, train_hooks=[hook]
    )
    metrics, _ = made.run()
    assert metrics["global_step"] == 6
    assert hook.steps == 6


def test_an_executor_asks_its_listener_while_it_evaluates(tmp_path: Path) -> None:
    class Listener(executor._ContinuousEvalListener):
        def __init__(self) -> None:
            self.results: list[Any] = []

        def after_eval(self, eval_result: Any) -> bool:
            self.results.append(eval_result)
            return False

    estimator = small_estimator(tmp_path).train(batches, steps=3)
    listener = Listener()
    spec = est.EvalSpec(batches, steps=1, start_delay_secs=0, throttle_secs=0)
    made = executor._TrainingExecutor(
        estimator, est.TrainSpec(batches, max_steps=100), spec, continuous_eval_listener=listener
    )
    made.run_evaluator()
    (result,) = listener.results
    assert result.status == "evaluated"
    assert result.metrics["global_step"] == 3
    assert result.checkpoint_path == estimator.latest_checkpoint()


def test_an_executor_refuses_what_is_not_a_spec(tmp_path: Path) -> None:
    estimator = small_estimator(tmp_path)
    with pytest.raises(TypeError, match="`train_spec` must have type"):
        executor._TrainingExecutor(estimator, "spec", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`estimator` must have type"):
        executor._TrainingExecutor("estimator", est.TrainSpec(batches), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`eval_spec` must have type"):
        training._assert_eval_spec(None)


def test_results_written_as_an_event(tmp_path: Path) -> None:
    results = {"accuracy": np.float32(0.5), "global_step": 7, "nothing": None}
    eval_events._write_dict_to_summary(str(tmp_path), results, 7)
    assert read_scalars(str(tmp_path)) == {"accuracy": [(7, 0.5)]}


def test_parts_of_what_an_input_fn_returned() -> None:
    assert util.parse_iterator_result(("x", "y")) == ("x", "y")
    assert util.parse_iterator_result({"x": 1}) == ({"x": 1}, None)
    with pytest.raises(ValueError, match="should return \\(features, labels\\) as a len 2 tuple"):
        util.parse_iterator_result((1, 2, 3))
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = tf.data.Dataset.from_tensors(({"x": 1}, 2))
        features, labels, (hook,) = util.parse_input_fn_result(dataset)
        hook.begin()
        hook.after_create_session(session, None)
        assert session.run((features, labels)) == ({"x": 1}, 2)


def test_directories_of_exports(tmp_path: Path) -> None:
    path = export.get_timestamped_export_dir(str(tmp_path))
    assert path.startswith(str(tmp_path).encode())
    assert len(path.rpartition(b"/")[2]) == 10
    (tmp_path / path.decode()).mkdir()
    assert export.get_timestamped_export_dir(str(tmp_path)) != path


def test_signatures_of_receivers_and_alternatives() -> None:
    with tf.Graph().as_default():
        examples, other = v1.placeholder(tf.string), v1.placeholder(tf.int64, name="other")
        outputs = {
            "head": est.export.RegressionOutput(tf.constant([1.0])),
            "all": est.export.PredictOutput({"a": tf.constant(2.0)}),
        }
        found = export.build_all_signature_defs(examples, outputs, {"raw": {"other": other}})
    assert set(found) == {"head", "all", "raw:all"}
    assert found["head"].method_name == tf.saved_model.REGRESS_METHOD_NAME
    assert list(found["raw:all"].inputs) == ["other"]
    with pytest.raises(ValueError, match="export_outputs must be a dict"):
        export.build_all_signature_defs({}, None)


def test_helpers_for_heads_of_ones_own() -> None:
    logits = tf.constant([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert base_head.all_class_ids(logits, 3).numpy().tolist() == [[0, 1, 2]] * 2
    names = base_head.all_classes(logits, 3, ["a", "b", "c"])
    assert names.numpy().tolist() == [[b"a", b"b", b"c"]] * 2
    with pytest.raises(ValueError, match="n_classes must be > 2: 2"):
        base_head.validate_n_classes(2)
    with pytest.raises(ValueError, match="trainable_variables cannot be None"):
        base_head.validate_trainable_variables(None)
