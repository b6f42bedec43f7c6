"""`_TrainingExecutor` with estimators that are not ours: told by public methods what to do."""

from __future__ import annotations

import json
import time
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import installed
from estimand.compat.private import executor, executor_evaluation, training
from estimand.core import tf_private

Executor = executor._TrainingExecutor
Status = executor_evaluation._EvalStatus


def config(role: str, index: int = 0) -> est.RunConfig:
    cluster = {"chief": ["host0:0"], "ps": ["host1:1"], "worker": ["host2:2", "host3:3"]}
    settings = {"cluster": cluster, "task": {"type": role, "index": index}}
    with mock.patch.dict("os.environ", {"TF_CONFIG": json.dumps(settings)}):
        return est.RunConfig()


def stranger(**kwargs: Any) -> Any:
    return mock.Mock(spec=est.Estimator, **kwargs)


def eval_spec(**kwargs: Any) -> est.EvalSpec:
    return est.EvalSpec(lambda: 1, **{"start_delay_secs": 0, "throttle_secs": 0, **kwargs})


TRAIN = est.TrainSpec(lambda: 1, max_steps=200)


def test_a_worker_waits_its_turn_and_trains_behind_a_server() -> None:
    estimator = stranger(config=config("worker", 1))
    hook = tf.compat.v1.train.SessionRunHook()
    with (
        mock.patch.object(tf_private, "std_server") as server,
        mock.patch.object(time, "sleep") as sleep,
    ):
        Executor(estimator, TRAIN, None, train_hooks=[hook]).run()
    server.assert_called_with(
        estimator.config.cluster_spec,
        job_name="worker",
        task_index=1,
        config=mock.ANY,
        protocol=None,
        start=False,
    )
    sleep.assert_called_once_with(10)
    estimator.train.assert_called_with(
        input_fn=TRAIN.input_fn, max_steps=200, hooks=[hook], saving_listeners=None
    )


@pytest.mark.parametrize("missing", ["cluster_spec", "master", "task_type"])
def test_no_server_can_be_started_from_half_a_configuration(missing: str) -> None:
    settings = mock.Mock(
        cluster_spec=tf.train.ClusterSpec({"ps": ["a"]}),
        master="grpc://a",
        task_type="ps",
        task_id=0,
    )
    setattr(settings, missing, "")
    with pytest.raises(RuntimeError, match=r"Could not start server; .*TF_CONFIG"):
        Executor(stranger(config=settings), TRAIN, None).run_ps()


def test_an_evaluator_tells_its_listener_of_every_look() -> None:
    class Listener(executor_evaluation._ContinuousEvalListener):
        def __init__(self) -> None:
            self.seen: list[tuple[str, str | None]] = []

        def after_eval(self, eval_result: Any) -> bool:
            self.seen.append((eval_result.status, eval_result.checkpoint_path))
            return True

    estimator, listener = stranger(model_dir="unused"), Listener()
    estimator.latest_checkpoint.side_effect = [None, "one", "one", "two"]
    estimator.evaluate.side_effect = [{"global_step": 100}, {"global_step": 200}]
    Executor(estimator, TRAIN, eval_spec(), continuous_eval_listener=listener).run_evaluator()
    assert listener.seen == [
        (Status.MISSING_CHECKPOINT, None),
        (Status.EVALUATED, "one"),
        (Status.NO_NEW_CHECKPOINT, None),
        (Status.EVALUATED, "two"),
    ]


def test_exporters_hear_that_the_last_export_is_the_last() -> None:
    exporter = mock.PropertyMock(spec=est.Exporter)
    exporter.name = "kept"
    estimator = stranger(model_dir="models")
    estimator.latest_checkpoint.side_effect = ["one", "two"]
    estimator.evaluate.side_effect = [{"global_step": 100}, {"global_step": 200}]
    Executor(estimator, TRAIN, eval_spec(exporters=exporter)).run_evaluator()
    calls = [call.kwargs for call in exporter.export.call_args_list]
    assert [call["is_the_final_export"] for call in calls] == [False, True]
    assert calls[0]["export_path"] == "models/export/kept"


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ({}, ValueError, "should never return empty metrics"),
        (123, TypeError, "should return dict"),
        ({"loss": 1.0}, ValueError, "result should have `global_step`"),
    ],
)
def test_what_evaluate_returns_is_checked(
    result: Any, error: type[Exception], message: str
) -> None:
    estimator = stranger(model_dir="unused")
    estimator.evaluate.return_value = result
    with pytest.raises(error, match=message):
        Executor(estimator, TRAIN, eval_spec()).run_evaluator()


def test_a_listener_stops_the_local_loop_after_the_first_evaluation() -> None:
    class Enough(executor_evaluation._ContinuousEvalListener):
        def after_eval(self, eval_result: Any) -> bool:
            return False

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        step = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        return est.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=step)

    estimator = est.Estimator(model_fn, config=est.RunConfig(save_checkpoints_steps=2))
    data = tf.data.Dataset.from_tensors([1.0])
    spec = est.EvalSpec(lambda: data, throttle_secs=0)
    train = est.TrainSpec(lambda: data.repeat(), max_steps=50)
    metrics, _ = Executor(estimator, train, spec, continuous_eval_listener=Enough()).run_local()
    assert metrics["global_step"] == 2


def test_unknown_roles_are_named_with_those_that_can_be_played() -> None:
    settings = mock.Mock(cluster_spec=tf.train.ClusterSpec({"a": ["b"]}), task_type="alloc")
    with pytest.raises(ValueError, match=r"alloc is not supported. .*((?!local).)*$"):
        Executor(stranger(config=settings), TRAIN, eval_spec()).run()


def test_an_executor_put_in_its_place_is_used() -> None:
    with installed():
        from tensorflow_estimator.python.estimator import training as module

        with mock.patch.object(module, "_TrainingExecutor") as other:
            module.train_and_evaluate("estimator", "train", eval_spec())
    assert other.return_value.run.called
    with pytest.raises(TypeError, match="`eval_spec` must have type"):
        training.train_and_evaluate(stranger(), TRAIN, object())
