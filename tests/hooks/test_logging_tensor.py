"""LoggingTensorHook: what is logged, and when."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import tensorflow as tf

from estimand.hooks import LoggingTensorHook
from tests.hooks.driving import LOSSES, SmallLoop, evaluate, monitored_session, trace


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, with durations replaced by T; to be read at the end of the test."""
    caplog.set_level(logging.INFO, "tensorflow")

    class Lines(list[str]):
        def __iter__(self):
            texts = (r.getMessage() for r in caplog.records)
            return iter([re.sub(r"\(\d+\.\d{3} sec\)", "(T sec)", t) for t in texts])

    return Lines()


def test_lines_are_those_of_tf_estimator(lines) -> None:
    model = trace()
    tensors = {"loss": model.spec.loss, "step": model.global_step}
    SmallLoop(model, [LoggingTensorHook(tensors, every_n_iter=3)]).run(9)
    assert list(lines) == [
        f"loss = {LOSSES[0]}, step = 0",
        f"loss = {LOSSES[3]}, step = 3 (T sec)",
        f"loss = {LOSSES[6]}, step = 6 (T sec)",
    ]


def test_looks_only_at_the_steps_it_logs() -> None:
    loop = SmallLoop(trace(), [LoggingTensorHook(["loss"], every_n_iter=4)]).run(9)
    assert loop.looked_at == [1, 5, 9]


def test_list_is_logged_in_its_order_and_small_numbers_without_exponent(lines) -> None:
    model = trace()
    hook = LoggingTensorHook([model.spec.loss, "tiny", "tiny:0"], every_n_iter=4, at_end=True)
    SmallLoop(model, [hook]).run(9)
    tag = 'Tensor("loss:0", shape=(), dtype=float32)'
    assert list(lines) == [
        f"{tag} = 5.0, tiny = [0. 0.], tiny:0 = [0. 0.]",
        f"{tag} = {LOSSES[4]}, tiny = [0. 0.], tiny:0 = [0. 0.] (T sec)",
        f"{tag} = {LOSSES[8]}, tiny = [0. 0.], tiny:0 = [0. 0.] (T sec)",
        f"{tag} = {LOSSES[9]}, tiny = [0. 0.], tiny:0 = [0. 0.] (T sec)",
    ]


def test_at_end_alone_logs_once_without_duration_and_never_looks(lines) -> None:
    loop = SmallLoop(trace(), [LoggingTensorHook({"z": "loss", "a": "tiny"}, at_end=True)]).run(9)
    assert list(lines) == [f"a = [0. 0.], z = {LOSSES[9]}"]
    assert loop.looked_at == []


def test_at_end_with_used_up_input_warns(lines) -> None:
    SmallLoop(trace(), [LoggingTensorHook(["loss:0"], at_end=True)], batches=2).run(9)
    assert [re.sub(":.*", "", line) for line in lines] == ["loss"]
    assert "the input is used up" in next(iter(lines))


def test_formatter_gets_values_by_tag(lines) -> None:
    hook = LoggingTensorHook({"z": "loss"}, every_n_iter=5, formatter=lambda v: f"<{v['z']}>")
    SmallLoop(trace(), [hook]).run(3)
    assert list(lines) == ["<5.0>"]


def test_variable_is_found_by_its_name(lines) -> None:
    SmallLoop(trace(), [LoggingTensorHook(["w"], every_n_iter=9)]).run(1)
    assert list(lines) == ["w = [1. 1.]"]


def test_printing_options_of_the_program_are_left_alone(lines) -> None:
    SmallLoop(trace(), [LoggingTensorHook(["tiny"], every_n_iter=9)]).run(1)
    assert np.get_printoptions()["suppress"] is False


def test_every_second_counts_time_not_steps(lines) -> None:
    hook = LoggingTensorHook(["loss"], every_n_secs=1000)
    assert SmallLoop(trace(), [hook]).run(9).looked_at == [1]


def test_same_hook_starts_over_in_a_second_run(lines) -> None:
    hook = LoggingTensorHook({"s": "global_step"}, every_n_iter=100)
    for _ in range(2):
        SmallLoop(trace(), [hook]).run(2)
    assert list(lines) == ["s = 0", "s = 0"]


def test_evaluation_after_training_looks_into_its_own_graph(lines) -> None:
    hook = LoggingTensorHook({"loss": "loss"}, every_n_iter=2)
    SmallLoop(trace(), [hook]).run(1)
    evaluate(trace("eval"), [hook], batches=5)
    assert list(lines) == ["loss = 5.0", "loss = 5.0", *["loss = 5.0 (T sec)"] * 2]


def test_v1_session_logs_the_same_as_tensorflows_own(lines) -> None:
    arguments = {"every_n_iter": 4, "at_end": True}
    logged = []
    for kind in (LoggingTensorHook, tf.compat.v1.train.LoggingTensorHook):
        before = len(list(lines))
        monitored_session(lambda loss, k=kind: [k({"l": loss, "t": "tiny"}, **arguments)], 9)
        logged.append([line for line in list(lines)[before:] if line.startswith("l = ")])
    assert logged[0] == logged[1]
    assert len(logged[0]) == 4


def test_subclass_with_its_own_after_run_sees_every_step() -> None:
    class Counting(LoggingTensorHook):
        calls = 0

        def after_run(self, run_context, run_values):
            super().after_run(run_context, run_values)
            self.calls += 1

    hook = Counting(["loss"], every_n_iter=4)
    loop = SmallLoop(trace(), [hook]).run(9)
    assert hook.calls == 9
    assert loop.looked_at == list(range(1, 10))


def test_subclass_may_format_the_values_itself(lines) -> None:
    class Own(LoggingTensorHook):
        def _log_tensors(self, tensor_values):
            logging.getLogger("tensorflow").info("own %s", sorted(tensor_values))

    loop = SmallLoop(trace(), [Own(["loss"], every_n_iter=4)]).run(9)
    assert list(lines) == ["own ['loss']"] * 3
    assert loop.looked_at == [1, 5, 9]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"every_n_iter": 1, "every_n_secs": 1},
        {"every_n_iter": 1, "every_n_secs": 1, "at_end": True},
    ],
)
def test_needs_exactly_one_frequency(arguments) -> None:
    with pytest.raises(ValueError, match="exactly one of every_n_iter and every_n_secs must be"):
        LoggingTensorHook(["x"], **arguments)


def test_zero_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid every_n_iter=0"):
        LoggingTensorHook(["x"], every_n_iter=0)


def test_unknown_name_is_told_with_similar_ones() -> None:
    with pytest.raises(ValueError, match=r"no tensor or op named 'tin'.*Similar names: tiny"):
        SmallLoop(trace(), [LoggingTensorHook(["tin"], every_n_iter=1)]).run(1)


def test_op_with_two_outputs_has_to_be_named_precisely() -> None:
    def extend(loss):
        tf.split(tf.zeros([2]), 2, name="halves")
        return {}

    with pytest.raises(ValueError, match=r"halves is ambiguous.*multiple outputs.*'halves:0'"):
        SmallLoop(trace(extend=extend), [LoggingTensorHook(["halves"], every_n_iter=1)]).run(1)


def test_tensor_of_another_graph_is_refused() -> None:
    foreign = trace().spec.loss
    with pytest.raises(ValueError, match="should have graph attribute that is equal to current"):
        SmallLoop(trace(), [LoggingTensorHook([foreign], every_n_iter=1)]).run(1)
