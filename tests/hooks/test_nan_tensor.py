"""NanTensorHook: the loss is judged once per block, other tensors in every step."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.hooks import NanLossDuringTrainingError, NanTensorHook
from tests.hooks.driving import SmallLoop, evaluate, monitored_session, trace


def diverging(loss: tf.Tensor) -> dict[str, Any]:
    """The loss is NaN from the third step on."""
    step = tf.cast(tf.compat.v1.train.get_global_step(), tf.float32)
    return {"loss": tf.where(step < 2, loss, float("nan"))}


def diverging_trace(mode: str = "train") -> Any:
    model = trace(mode, lambda loss: {"predictions": diverging(loss)["loss"]})
    model.spec = model.spec._replace(loss=model.spec.predictions)
    return model


def test_nan_loss_is_logged_and_raised(caplog) -> None:
    model = diverging_trace()
    with pytest.raises(NanLossDuringTrainingError, match="NaN loss during training"):
        SmallLoop(model, [NanTensorHook(model.spec.loss)]).run(5)
    assert caplog.messages == ["Model diverged with loss = NaN."]
    assert caplog.records[0].levelno == logging.ERROR


def test_error_notes_the_step() -> None:
    model = diverging_trace()
    with pytest.raises(NanLossDuringTrainingError) as error:
        SmallLoop(model, [NanTensorHook(model.spec.loss)]).run(5)
    assert "Noticed at step 5" in error.value.__notes__[0]


def test_training_stops_with_a_warning_if_it_is_not_to_fail(caplog) -> None:
    model = diverging_trace()
    hook = NanTensorHook(model.spec.loss, fail_on_nan_loss=False)
    loop = SmallLoop(model, [hook, Every4Steps()]).run(100)
    assert loop.global_step() == 4
    assert loop.stop_reason == "Model diverged with loss = NaN."
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


class Every4Steps(est.SessionRunHook):
    cadence = est.every(steps=4, at_start=False)


@pytest.mark.parametrize("name", ["loss", "loss:0"])
def test_loss_given_by_name_is_not_looked_at(name: str) -> None:
    assert SmallLoop(trace(), [NanTensorHook(name)]).run(5).looked_at == []


def test_other_tensor_is_looked_at_in_every_step() -> None:
    loop = SmallLoop(trace(), [NanTensorHook("tiny")]).run(3)
    assert loop.looked_at == [1, 2, 3]


def test_other_tensor_that_is_nan_is_found() -> None:
    def extend(loss: tf.Tensor) -> dict[str, Any]:
        tf.identity([1.0, float("nan")], name="other")
        return {}

    with pytest.raises(NanLossDuringTrainingError):
        SmallLoop(trace(extend=extend), [NanTensorHook("other")]).run(3)


def test_nan_loss_means_nothing_to_a_hook_on_another_tensor() -> None:
    assert SmallLoop(diverging_trace(), [NanTensorHook("tiny")]).run(5).global_step() == 5


def test_cadence_may_be_chosen() -> None:
    hook = NanTensorHook("tiny", cadence=est.every(steps=2))
    assert SmallLoop(trace(), [hook]).run(5).looked_at == [1, 3, 5]


def test_same_hook_looks_at_every_batch_of_an_evaluation() -> None:
    hook = NanTensorHook("loss")
    SmallLoop(trace(), [hook]).run(2)
    model = diverging_trace("eval")
    model.global_step.assign(5)
    hook._loss_tensor = model.spec.loss.name
    with pytest.raises(NanLossDuringTrainingError):
        evaluate(model, [hook], batches=2)


def test_v1_session_is_ended() -> None:
    with pytest.raises(tf.compat.v1.train.NanLossDuringTrainingError):
        monitored_session(lambda loss: [NanTensorHook(diverging(loss)["loss"])], 5)
