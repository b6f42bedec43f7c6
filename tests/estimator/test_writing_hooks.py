"""Hooks of evaluate and predict that write to variables, as those that swap in averages do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from tests.line import X, batches, endless, estimator, loss_of, v1, weight_after

AVERAGE = 5.0


class Session(est.SessionRunHook):
    """Writes by the session, as `Saver.restore` does."""

    def begin(self) -> None:
        (w,) = v1.trainable_variables()
        self.assign = v1.assign(w, AVERAGE)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.assign)


class Step(Session):
    """Writes together with each batch."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        pass

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self.assign)


def test_what_an_evaluation_writes_is_its_own(tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=4)
    results = made.evaluate(batches, hooks=[Session()])
    assert results["loss"] == pytest.approx((loss_of(AVERAGE, 0) + loss_of(AVERAGE, 1)) / 2)
    w = weight_after(4)
    assert [row["y"] for row in made.predict(batches)] == pytest.approx(list(w * X))
    assert made.evaluate(batches)["mae"] == pytest.approx(abs(w - 2) * 2.5, rel=1e-5)
    made.train(endless, steps=2)
    assert made.get_variable_value("w") == pytest.approx(weight_after(6))


@pytest.mark.parametrize("hook", [Session, Step])
def test_what_a_prediction_writes_is_its_own(hook: Any, tmp_path: Path) -> None:
    made = estimator(tmp_path).train(endless, steps=4)
    rows = list(made.predict(batches, hooks=[hook()]))
    assert rows[-1]["y"] == pytest.approx(AVERAGE * X[-1])
    made.train(endless, steps=2)
    assert made.get_variable_value("w") == pytest.approx(weight_after(6))


@pytest.mark.parametrize("hook", [Session, Step])
def test_evaluations_of_a_training_leave_it_alone(hook: Any, tmp_path: Path) -> None:
    made = estimator(tmp_path, save_checkpoints_steps=2)
    train, evaluate = est.TrainSpec(endless, 6), est.EvalSpec(batches, 2, hooks=[hook()])
    est.train_and_evaluate(made, train, evaluate)
    assert made.get_variable_value("w") == pytest.approx(weight_after(6))


def test_variables_of_replicas_get_their_values_back(tmp_path: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    made = estimator(tmp_path, eval_distribute=strategy).train(endless, steps=4)
    results = made.evaluate(batches, hooks=[Session()])
    assert results["mae"] == pytest.approx(abs(AVERAGE - 2) * 2.5)
    assert made.evaluate(batches)["mae"] == pytest.approx(abs(weight_after(4) - 2) * 2.5)
    made.train(endless, steps=2)
    assert made.get_variable_value("w") == pytest.approx(weight_after(6))
