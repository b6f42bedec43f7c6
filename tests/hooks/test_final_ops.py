"""FinalOpsHook: values computed once, at the end."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimand.hooks import FinalOpsHook
from tests.hooks.driving import LOSSES, SmallLoop, monitored_session, trace


def test_values_have_the_structure_that_was_asked_for() -> None:
    hook = FinalOpsHook({"step": "global_step", "more": ["w", "loss:0"]})
    loop = SmallLoop(trace(), [hook]).run(9)
    values = hook.final_ops_values
    assert values["step"] == 9
    # w shrinks by 1 - 2 * 0.01 * x^2 per step.
    np.testing.assert_allclose(values["more"][0], [0.98**9, 0.92**9], rtol=1e-5)
    assert values["more"][1] == pytest.approx(LOSSES[9], rel=1e-6)
    assert loop.looked_at == []


def test_tensors_may_be_fed() -> None:
    model = trace()
    hook = FinalOpsHook("loss:0", final_ops_feed_dict={model.inputs[0].name: [10.0, 0.0]})
    SmallLoop(model, [hook]).run(1)
    assert hook.final_ops_values == pytest.approx((10 * 0.98) ** 2, rel=1e-6)


def test_nothing_is_run_before_the_end() -> None:
    assert FinalOpsHook("loss:0").final_ops_values is None


def test_none_is_nothing_to_do() -> None:
    hook = FinalOpsHook(None)
    SmallLoop(trace(), [hook]).run(1)
    assert hook.final_ops_values is None


def test_ops_that_need_used_up_input_are_explained(caplog) -> None:
    with pytest.raises(tf.errors.OutOfRangeError):
        SmallLoop(trace(), [FinalOpsHook("loss:0")], batches=1).run(9)
    assert "depend on the input, which is used up" in caplog.messages[-1]


def test_v1_session() -> None:
    made = []

    def hooks(loss: tf.Tensor) -> list[FinalOpsHook]:
        made.append(FinalOpsHook(tf.compat.v1.train.get_global_step()))
        return made

    monitored_session(hooks, 4)
    assert made[0].final_ops_values == 4
