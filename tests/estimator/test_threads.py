"""What may run beside what: training, evaluations and predictions of one estimator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ModelBusyError, ModelDirBusyError
from tests.estimator.conftest import run_config

v1 = tf.compat.v1

ROWS = 12


def counting(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """Its variable is the number of steps trained, and so is whatever it gives."""
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
    return _spec(features, mode, count)


def counting_outside() -> Callable[..., est.EstimatorSpec]:
    """The same with a variable made outside of the model function."""
    count = tf.Variable(0.0, name="count")
    return lambda features, labels, mode: _spec(features, mode, count)


def counting_in_keras() -> Callable[..., est.EstimatorSpec]:
    """The same with a layer made outside, which is built in the first trace."""
    import keras

    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="outside")

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        y = layer(tf.ones_like(features["x"])[:, None])[:, 0]
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions={"count": y})
        loss = tf.reduce_mean(y)
        metrics = {"seen": keras.metrics.Mean(name="seen")}
        metrics["seen"].update_state(y)
        train_op = est.minimize(v1.train.GradientDescentOptimizer(-1.0), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    return model_fn


def _spec(features: Any, mode: str, count: Any) -> est.EstimatorSpec:
    y = tf.zeros_like(features["x"]) + count
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"count": y})
    loss = tf.reduce_mean(y)
    step = v1.train.get_global_step()
    train_op = None
    if mode == est.ModeKeys.TRAIN:
        train_op = tf.group(count.assign_add(1.0), step.assign_add(1))
    metrics = {"seen": v1.metrics.mean(y)}
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


MODELS = {
    "inside": lambda: counting,
    "outside": counting_outside,
    "Keras layer outside": counting_in_keras,
}


def train_input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(({"x": np.zeros(2, "float32")}, 0.0)).repeat()


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": np.zeros(ROWS, "float32")}).batch(2)


def eval_input_fn() -> tf.data.Dataset:
    return input_fn().map(lambda x: (x, 0.0))


class At(est.SessionRunHook):
    """Calls functions after training steps, by their numbers."""

    def __init__(self, **calls: Callable[[], Any]) -> None:
        self._calls = {int(name.removeprefix("step_")): call for name, call in calls.items()}
        self._steps = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._steps += 1
        self._calls.get(self._steps, lambda: None)()


@pytest.fixture(params=list(MODELS))
def estimator(request: pytest.FixtureRequest, tmp_path: Path) -> est.Estimator:
    """Trained for ten steps, with a checkpoint at 5 and 10."""
    return trained(MODELS[request.param](), tmp_path)


def trained(model_fn: Any, tmp_path: Path, **settings: Any) -> est.Estimator:
    config = run_config(save_checkpoints_steps=5, **settings)
    return est.Estimator(model_fn, str(tmp_path), config).train(train_input_fn, max_steps=10)


def counts(rows: Any) -> list[float]:
    return [float(row["count"]) for row in rows]


def trained_count(estimator: est.Estimator) -> float:
    names = [n for n in estimator.get_variable_names() if n.split("/")[0] in ("count", "outside")]
    return float(np.squeeze(estimator.get_variable_value(names[0])))


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


# Beside training


def test_a_generator_begun_before_training_goes_on_with_its_values(estimator) -> None:
    rows = estimator.predict(input_fn)
    seen = counts([next(rows)])
    read = lambda: seen.extend(counts(next(rows) for _ in range(4)))  # noqa: E731
    estimator.train(train_input_fn, max_steps=30, hooks=[At(step_3=read, step_17=read)])
    seen += counts(rows)
    assert seen == [10.0] * ROWS
    assert trained_count(estimator) == 30.0
    assert counts(estimator.predict(input_fn)) == [30.0] * ROWS


def test_predictions_in_another_thread_read_a_checkpoint_and_disturb_nothing(
    estimator, thread
) -> None:
    rows: list[Any] = []
    seen: list[float] = []

    def begin() -> None:
        rows.append(estimator.predict(input_fn))
        seen.extend(thread.submit(lambda: counts([next(rows[0])])).result())

    def go_on() -> None:
        seen.extend(thread.submit(lambda: counts(next(rows[0]) for _ in range(5))).result())

    # The checkpoint that it reads, the newest of all on the disk, is deleted by and by.
    hook = At(step_3=begin, step_8=go_on, step_31=go_on)
    estimator.train(train_input_fn, max_steps=60, hooks=[hook])
    seen += counts(rows[0])
    assert seen == [10.0] * ROWS
    assert trained_count(estimator) == 60.0


def test_threads_that_predict_all_the_time_lose_no_update(tmp_path: Path) -> None:
    estimator = trained(counting, tmp_path, keep_checkpoint_max=1)
    over, answers = threading.Event(), []

    def predict_until_over() -> None:
        while not over.is_set():
            answers.append(counts(estimator.predict(input_fn)))

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(predict_until_over) for _ in range(2)]
        try:
            until_ten = At(step_300=lambda: _wait(lambda: len(answers) > 10 or _any_done(jobs)))
            estimator.train(train_input_fn, max_steps=400, hooks=[until_ten])
        finally:
            over.set()
        for job in jobs:
            job.result()
    assert trained_count(estimator) == 400.0
    assert len(answers) > 10
    assert all(len(set(answer)) == 1 and len(answer) == ROWS for answer in answers)
    assert {answer[0] % 5 for answer in answers} == {0.0}  # as they were saved


def _wait(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it does not happen")


def _any_done(jobs: Any) -> bool:
    return any(job.done() for job in jobs)


def test_an_evaluation_in_another_thread_is_one_of_a_checkpoint(estimator, thread) -> None:
    found = []

    def evaluate() -> None:
        newest = thread.submit(estimator.evaluate, eval_input_fn).result()
        older = estimator.evaluate(
            eval_input_fn, checkpoint_path=f"{estimator.model_dir}/model.ckpt-5"
        )
        found.extend((float(r["seen"]), int(r["global_step"])) for r in (newest, older))

    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_4=evaluate)])
    assert found == [(10.0, 10), (5.0, 5)]
    assert trained_count(estimator) == 20.0


def test_endless_predictions_inside_of_a_hook_come_one_by_one(estimator) -> None:
    seen: list[float] = []

    def take_three() -> None:
        rows = estimator.predict(lambda: input_fn().repeat())
        seen.extend(counts(next(rows) for _ in range(3)))

    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_7=take_three)])
    assert seen == [15.0] * 3  # the checkpoint before
    assert trained_count(estimator) == 20.0


def test_a_hook_of_a_training_without_checkpoints_predicts_what_is_in_memory(
    tmp_path: Path,
) -> None:
    config = run_config(save_checkpoints_steps=None, save_checkpoints_secs=None)
    estimator = est.Estimator(counting, str(tmp_path), config)
    rows = estimator.predict(input_fn)
    seen: list[float] = []
    take = lambda: seen.extend(counts(next(rows) for _ in range(2)))  # noqa: E731
    estimator.train(train_input_fn, steps=9, hooks=[At(step_4=take, step_8=take)])
    assert seen == [4.0] * 4
    assert counts(estimator.predict(input_fn)) == [9.0] * ROWS


def test_an_export_in_another_thread_is_one_of_a_checkpoint(tmp_path: Path, thread) -> None:
    estimator = trained(counting_outside(), tmp_path / "model")
    receiver = est.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([2])})
    paths = []

    def export() -> None:
        job = thread.submit(estimator.export_saved_model, str(tmp_path / "export"), receiver)
        paths.append(job.result().decode())

    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_3=export)])
    answer = tf.saved_model.load(paths[0]).signatures["serving_default"](x=tf.zeros([2]))
    assert answer["count"].numpy().tolist() == [10.0, 10.0]
    assert trained_count(estimator) == 20.0


def test_a_second_training_in_another_thread_is_refused(tmp_path: Path, thread) -> None:
    estimator = trained(counting, tmp_path)
    errors = []
    again = lambda: errors.append(  # noqa: E731
        thread.submit(estimator.train, train_input_fn, steps=5).exception()
    )
    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_3=again)])
    assert isinstance(errors[0], ModelDirBusyError)
    assert trained_count(estimator) == 20.0


# Beside each other


class Between(est.SessionRunHook):
    """Calls a function after the second batch."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._batches = call, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._batches += 1
        if self._batches == 2:
            self._call()


def older(estimator: est.Estimator) -> str:
    return f"{estimator.model_dir}/model.ckpt-5"


def test_rows_of_a_prediction_with_hooks_are_of_one_checkpoint(estimator) -> None:
    evaluate = lambda: estimator.evaluate(eval_input_fn, checkpoint_path=older(estimator))  # noqa: E731
    rows = estimator.predict(input_fn, hooks=[Between(evaluate)])
    assert counts(rows) == [10.0] * ROWS


def test_an_evaluation_inside_of_an_evaluation_leaves_it_as_it_was(estimator) -> None:
    inner = []

    def evaluate() -> None:
        inner.append(estimator.evaluate(eval_input_fn, checkpoint_path=older(estimator)))
        inner.append(estimator.evaluate(eval_input_fn))

    outer = estimator.evaluate(eval_input_fn, hooks=[Between(evaluate)])
    found = [(float(r["seen"]), float(r["loss"]), int(r["global_step"])) for r in (*inner, outer)]
    assert found == [(5.0, 5.0, 5), (10.0, 10.0, 10), (10.0, 10.0, 10)]


def test_a_hook_sees_the_variables_of_its_own_prediction(estimator) -> None:
    seen: list[int] = []

    class Look(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs(v1.train.get_global_step())

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(int(run_values.results))
            seen.append(int(run_context.session.run("global_step:0")))

    rows = estimator.predict(input_fn, hooks=[Look()])
    next(rows)
    estimator.train(train_input_fn, max_steps=20)
    list(rows)
    assert set(seen) == {10}


def test_evaluations_of_two_checkpoints_at_the_same_time(estimator) -> None:
    meet = threading.Barrier(2, timeout=60)

    def evaluate(path: str | None) -> tuple[float, int]:
        hooks = [Between(meet.wait)]  # both are under way
        result = estimator.evaluate(eval_input_fn, hooks=hooks, checkpoint_path=path)
        return float(result["seen"]), int(result["global_step"])

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(evaluate, path) for path in (older(estimator), None)]
        assert [job.result() for job in jobs] == [(5.0, 5), (10.0, 10)]


def test_a_generator_may_be_left_or_closed_in_another_thread(estimator, thread) -> None:
    left, closed = estimator.predict(input_fn), estimator.predict(input_fn)
    seen = counts([next(left), next(closed)])
    thread.submit(closed.close).result()
    del left
    estimator.train(train_input_fn, max_steps=20)
    assert seen == [10.0, 10.0]
    assert counts(estimator.predict(input_fn)) == [20.0] * ROWS


def test_a_prediction_that_waits_for_input_keeps_nobody_from_predicting(estimator, thread) -> None:
    waits, go_on = threading.Event(), threading.Event()

    def slow_input_fn() -> tf.data.Dataset:
        def rows() -> Iterator[dict[str, Any]]:
            yield {"x": np.zeros(2, "float32")}
            waits.set()
            go_on.wait(60)
            yield {"x": np.zeros(2, "float32")}

        spec = {"x": tf.TensorSpec([2], tf.float32)}
        return tf.data.Dataset.from_generator(rows, output_signature=spec)

    job = thread.submit(lambda: counts(estimator.predict(slow_input_fn)))
    assert waits.wait(60)
    assert counts(estimator.predict(input_fn)) == [10.0] * ROWS
    go_on.set()
    assert job.result() == [10.0] * 4


# Eagerly, where one thing runs at a time


def test_eager_predictions_inside_of_a_hook_leave_training_as_it_was(tmp_path: Path) -> None:
    estimator = trained(counting, tmp_path, run_eagerly=True)
    seen: list[float] = []
    predict = lambda: seen.extend(counts(estimator.predict(input_fn)))  # noqa: E731
    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_7=predict)])
    assert seen == [15.0] * ROWS
    assert trained_count(estimator) == 20.0


def test_eager_rows_are_of_one_checkpoint(tmp_path: Path) -> None:
    estimator = trained(counting, tmp_path, run_eagerly=True)
    rows = estimator.predict(input_fn)
    seen = counts([next(rows)])
    estimator.evaluate(eval_input_fn, checkpoint_path=older(estimator))
    assert seen + counts(rows) == [10.0] * ROWS


def test_what_cannot_run_beside_an_eager_training_is_told(tmp_path: Path, thread) -> None:
    estimator = trained(counting, tmp_path, run_eagerly=True)
    begun = estimator.predict(input_fn)
    assert counts(next(begun) for _ in range(2)) == [10.0, 10.0]  # a whole batch
    endless = estimator.predict(lambda: input_fn().repeat())
    messages: list[str] = []

    def told(call: Callable[[], Any]) -> None:
        with pytest.raises(ModelBusyError) as error:
            call()
        messages.append(str(error.value))

    def try_all() -> None:
        told(lambda: next(begun))
        told(lambda: next(endless))
        told(lambda: thread.submit(list, estimator.predict(input_fn)).result())
        told(lambda: thread.submit(estimator.evaluate, eval_input_fn).result())

    estimator.train(train_input_fn, max_steps=20, hooks=[At(step_3=try_all)])
    assert [m.split(",")[0] for m in messages] == [
        "This predict generator was begun before train",
        "predict was called by a hook of training",
        "predict was called while another thread trains this estimator",
        "evaluate was called while another thread trains this estimator",
    ]
    assert trained_count(estimator) == 20.0
