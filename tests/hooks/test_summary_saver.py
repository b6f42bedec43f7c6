"""SummarySaverHook: which summaries land in which event file, at which steps."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from estimand.engine.events import event_files, read_events, read_scalars
from estimand.engine.tracing.summaries import TensorSummary
from estimand.hooks import SummarySaverHook
from tests.hooks.driving import (
    LOSSES,
    SmallLoop,
    close_event_file,
    evaluate,
    monitored_session,
    trace,
    v1,
)


def summarise(loss: tf.Tensor) -> dict[str, Any]:
    with v1.name_scope("inner") as scope:
        v1.summary.scalar("doubled", 2 * loss)
    v1.summary.merge_all(scope=scope)
    return {}


def events(directory: Path) -> list[tuple[int, str, list[str]]]:
    close_event_file(directory)
    return [
        (e.step, e.WhichOneof("what"), [v.tag for v in e.summary.value])
        for file in event_files(directory)
        for e in read_events(file)
        if e.WhichOneof("what") in ("summary", "session_log")
    ]


def test_first_step_then_every_so_many_as_tf_estimator(tmp_path: Path) -> None:
    model = trace(extend=summarise)
    hook = SummarySaverHook(save_steps=3, output_dir=str(tmp_path), summary_op=model.summary_op)
    SmallLoop(model, [hook]).run(9)
    tags = ["inner/doubled", "loss_1"]
    assert events(tmp_path) == [
        (1, "session_log", []),
        (1, "summary", tags),
        (4, "summary", tags),
        (7, "summary", tags),
    ]


def test_recorded_values_are_those_of_the_step(tmp_path: Path) -> None:
    model = trace(extend=summarise)
    hook = SummarySaverHook(save_steps=3, output_dir=str(tmp_path), summary_op=model.summary_op)
    SmallLoop(model, [hook]).run(9)
    close_event_file(tmp_path)
    expected = [(1, 2 * LOSSES[0]), (4, 2 * LOSSES[3]), (7, 2 * LOSSES[6])]
    for (step, value), (wanted_step, wanted) in zip(
        read_scalars(tmp_path)["inner/doubled"], expected, strict=True
    ):
        assert step == wanted_step
        assert value == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", ["Merge/MergeSummary", "Merge/MergeSummary:0"])
def test_summary_op_by_name(tmp_path: Path, name: str) -> None:
    hook = SummarySaverHook(save_steps=9, output_dir=str(tmp_path), summary_op=name)
    SmallLoop(trace(extend=summarise), [hook]).run(1)
    assert events(tmp_path)[1:] == [(1, "summary", ["inner/doubled"])]


def test_list_of_summary_ops(tmp_path: Path) -> None:
    built = {}

    def extend(loss: tf.Tensor) -> dict[str, Any]:
        built["ops"] = [v1.summary.scalar("a", loss), v1.summary.scalar("b", loss)]
        return {}

    model = trace(extend=extend)
    hook = SummarySaverHook(save_steps=9, output_dir=str(tmp_path), summary_op=built["ops"])
    SmallLoop(model, [hook]).run(1)
    assert events(tmp_path)[1:] == [(1, "summary", ["a"]), (1, "summary", ["b"])]


def test_scaffold_without_summary_op_stands_for_all_summaries(tmp_path: Path) -> None:
    scaffold = v1.train.Scaffold()
    hook = SummarySaverHook(save_steps=9, output_dir=str(tmp_path), scaffold=scaffold)
    SmallLoop(trace(extend=summarise), [hook]).run(1)
    assert events(tmp_path)[1:] == [(1, "summary", ["inner/doubled", "loss_1"])]


def test_tf2_summaries_are_recorded_with_their_metadata(tmp_path: Path) -> None:
    def extend(loss: tf.Tensor) -> dict[str, Any]:
        tf.summary.scalar("modern", loss)
        tf.summary.text("words", "hello")
        return {}

    model = trace(extend=extend)
    hook = SummarySaverHook(
        save_steps=3, output_dir=str(tmp_path), tensor_summaries=model.tensor_summaries
    )
    SmallLoop(model, [hook]).run(4)
    close_event_file(tmp_path)
    values = [v for f in event_files(tmp_path) for e in read_events(f) for v in e.summary.value]
    assert [v.tag for v in values] == ["modern", "words"] * 2
    assert [v.metadata.plugin_data.plugin_name for v in values[:2]] == ["scalars", "text"]
    assert tf.make_ndarray(values[0].tensor) == LOSSES[0]
    assert tf.make_ndarray(values[1].tensor).item() == b"hello"
    assert tf.make_ndarray(values[2].tensor) == pytest.approx(LOSSES[3], rel=1e-6)


def test_serialized_metadata_is_understood(tmp_path: Path) -> None:
    metadata = v1.SummaryMetadata(display_name="shown")
    model = trace()
    hook = SummarySaverHook(
        save_steps=1,
        output_dir=str(tmp_path),
        tensor_summaries=[TensorSummary("t", model.spec.loss, metadata.SerializeToString())],
    )
    SmallLoop(model, [hook]).run(1)
    close_event_file(tmp_path)
    values = [v for f in event_files(tmp_path) for e in read_events(f) for v in e.summary.value]
    assert [v.metadata.display_name for v in values] == ["shown"]


class EvaluationSummaries:
    """The pattern of evaluation summaries: merge what one name scope holds."""

    def __init__(self, directory: Path, save_steps: int) -> None:
        def extend(loss: tf.Tensor) -> dict[str, Any]:
            v1.summary.scalar("elsewhere", loss)
            with v1.name_scope("histogram_summary") as scope:
                v1.summary.histogram("pred", tf.stack([loss, loss]))
                v1.summary.scalar("cost", loss)
            hook = SummarySaverHook(
                save_steps=save_steps,
                output_dir=str(directory),
                summary_op=v1.summary.merge_all(scope=scope),
            )
            return {"evaluation_hooks": [hook]}

        self.trace = trace("eval", extend)
        self.trace.global_step.assign(9)


def test_evaluation_hook_records_every_batch_at_the_step_of_the_checkpoint(tmp_path: Path) -> None:
    model = EvaluationSummaries(tmp_path, save_steps=1).trace
    evaluate(model, model.spec.evaluation_hooks, batches=3)
    summary = (9, "summary", ["histogram_summary/pred", "histogram_summary/cost"])
    assert events(tmp_path) == [(9, "session_log", []), summary, summary, summary]


def test_evaluation_hook_with_longer_period_records_the_first_batch_only(tmp_path: Path) -> None:
    # As tf.estimator: its timer waits for a global step that never comes.
    model = EvaluationSummaries(tmp_path, save_steps=3).trace
    evaluate(model, model.spec.evaluation_hooks, batches=7)
    assert [kind for _, kind, _ in events(tmp_path)] == ["session_log", "summary"]


def test_v1_session_records_the_same_as_tensorflows_own(tmp_path: Path) -> None:
    recorded = []
    for name, kind in (("ours", SummarySaverHook), ("theirs", v1.train.SummarySaverHook)):

        def hooks(loss: tf.Tensor, kind: Any = kind, name: str = name) -> list[Any]:
            op = v1.summary.scalar("double", 2 * loss)
            return [kind(save_steps=4, output_dir=str(tmp_path / name), summary_op=op)]

        monitored_session(hooks, 9)
        recorded.append(events(tmp_path / name))
    assert recorded[0] == recorded[1]
    assert [step for step, *_ in recorded[0]] == [1, 1, 5, 9]


def test_v1_session_records_the_summary_op_of_a_scaffold(tmp_path: Path) -> None:
    scaffold = v1.train.Scaffold()

    def hooks(loss: tf.Tensor) -> list[Any]:
        v1.summary.scalar("double", 2 * loss)
        return [SummarySaverHook(save_steps=4, output_dir=str(tmp_path), scaffold=scaffold)]

    monitored_session(hooks, 1, scaffold=lambda: scaffold)
    assert events(tmp_path)[1:] == [(1, "summary", ["double"])]


def test_nowhere_to_record_is_said_once(caplog) -> None:
    caplog.set_level(logging.WARNING, "tensorflow")
    SmallLoop(trace(), [SummarySaverHook(save_steps=1, summary_op="tiny")]).run(3)
    assert [m for m in caplog.messages if "neither output_dir nor summary_writer" in m] == (
        caplog.messages
    )
    assert len(caplog.messages) == 1


def test_neither_source_is_refused_with_a_word_on_empty_scopes() -> None:
    with pytest.raises(ValueError, match="Exactly one of scaffold or summary_op must be provided"):
        SummarySaverHook(save_steps=1)


def test_both_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="Exactly one of scaffold or summary_op must be provided"):
        SummarySaverHook(save_steps=1, scaffold=v1.train.Scaffold(), summary_op="x")


def test_no_frequency_is_refused() -> None:
    with pytest.raises(ValueError, match="Either every_secs or every_steps should be provided"):
        SummarySaverHook(summary_op="x")


def test_two_frequencies_are_refused() -> None:
    with pytest.raises(ValueError, match="Can not provide both every_secs and every_steps"):
        SummarySaverHook(save_steps=1, save_secs=1, summary_op="x")
