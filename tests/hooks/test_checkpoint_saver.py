"""CheckpointSaverHook: when it saves, what listeners hear, what it records."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimand.engine.events import event_files, read_events
from estimand.hooks import CheckpointSaverHook, CheckpointSaverListener
from tests.hooks.driving import SmallLoop, close_event_file, monitored_session, trace, v1


class Listener(CheckpointSaverListener):
    def __init__(self, name: str = "", stop_at: int | None = None) -> None:
        self.name, self.stop_at = name, stop_at
        self.heard: list[Any] = []

    def begin(self) -> None:
        self.heard.append("begin")

    def before_save(self, session: Any, global_step: int) -> None:
        self.heard.append(("before", global_step))

    def after_save(self, session: Any, global_step: int) -> bool:
        self.heard.append(("after", global_step))
        return global_step == self.stop_at

    def end(self, session: Any, global_step: int) -> None:
        self.heard.append(("end", global_step))


def steps_saved(loop: SmallLoop) -> list[int]:
    return [step for step, *_ in loop.saved]


def test_saves_at_the_start_every_so_many_steps_and_at_the_end(tmp_path: Path) -> None:
    loop = SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(9)
    assert steps_saved(loop) == [0, 4, 8, 9]
    assert loop.looked_at == [4, 8]


def test_last_step_is_not_saved_twice(tmp_path: Path) -> None:
    loop = SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(8)
    assert steps_saved(loop) == [0, 4, 8]


def test_second_run_saves_its_start_again(tmp_path: Path) -> None:
    model, hook = trace(), CheckpointSaverHook(str(tmp_path), save_steps=100)
    assert steps_saved(SmallLoop(model, [hook]).run(3)) == [0, 3]
    assert steps_saved(SmallLoop(model, [hook]).run(6)) == [3, 6]


def test_saving_by_time_starts_one_period_after_the_start(tmp_path: Path) -> None:
    loop = SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_secs=1000)]).run(5)
    assert steps_saved(loop) == [0, 5]
    assert loop.looked_at == []


def test_loop_saves_under_the_given_name_in_the_background(tmp_path: Path) -> None:
    hook = CheckpointSaverHook(str(tmp_path), save_steps=9, checkpoint_basename="mine")
    loop = SmallLoop(trace(), [hook]).run(1)
    assert loop.saved[0] == (0, str(tmp_path), "mine", False)


def test_with_listeners_the_file_is_there_when_they_hear_of_it(tmp_path: Path) -> None:
    hook = CheckpointSaverHook(str(tmp_path), save_steps=9, listeners=[Listener()])
    loop = SmallLoop(trace(), [hook]).run(1)
    assert [synchronous for *_, synchronous in loop.saved] == [True, True]


def test_listeners_hear_what_those_of_tf_estimator_hear(tmp_path: Path) -> None:
    listener = Listener()
    hook = CheckpointSaverHook(str(tmp_path), save_steps=4, listeners=[listener])
    SmallLoop(trace(), [hook]).run(9)
    saves = [(word, step) for step in (0, 4, 8, 9) for word in ("before", "after")]
    assert listener.heard == ["begin", *saves, ("end", 9)]


def test_listener_that_returns_true_stops_training(tmp_path: Path) -> None:
    listeners = [Listener(stop_at=4), Listener()]
    hook = CheckpointSaverHook(str(tmp_path), save_steps=4, listeners=listeners)
    assert SmallLoop(trace(), [hook]).run(100).global_step() == 4
    assert listeners[1].heard[-2:] == [("after", 4), ("end", 4)]  # the other one hears it all


def test_log_line(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "tensorflow")
    SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(4)
    path = tmp_path / "model.ckpt"
    assert caplog.messages == [f"Saving checkpoints for {step} into {path}." for step in (0, 4)]


def recorded(directory: Path) -> list[Any]:
    close_event_file(directory)
    return [e for file in event_files(directory) for e in read_events(file)]


def test_checkpoints_are_recorded_as_events(tmp_path: Path) -> None:
    SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(4)
    logs = [
        (e.step, e.session_log.status, e.session_log.checkpoint_path)
        for e in recorded(tmp_path)
        if e.HasField("session_log")
    ]
    checkpoint = tf.compat.v1.SessionLog.CHECKPOINT
    path = str(tmp_path / "model.ckpt")
    assert logs == [(0, checkpoint, path), (4, checkpoint, path)]


def ops_of(graph_def: Any) -> set[str]:
    return {node.name for node in graph_def.node}


def test_graph_is_written_as_text_and_as_event(tmp_path: Path) -> None:
    SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(1)
    written = text_format.Parse((tmp_path / "graph.pbtxt").read_text(), v1.GraphDef())
    assert {"loss", "tiny"} <= ops_of(written)
    graphs = [v1.GraphDef.FromString(e.graph_def) for e in recorded(tmp_path) if e.graph_def]
    assert any({"loss", "tiny"} <= ops_of(graph) for graph in graphs)
    assert not list(tmp_path.glob("*.tmp"))


def test_graph_file_can_be_left_out(tmp_path: Path) -> None:
    SmallLoop(
        trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4, save_graph_def=False)]
    ).run(1)
    assert not (tmp_path / "graph.pbtxt").exists()


def test_graph_is_recorded_once_for_many_runs(tmp_path: Path) -> None:
    model = trace()
    for target in (1, 2, 3):
        SmallLoop(model, [CheckpointSaverHook(str(tmp_path), save_steps=9)]).run(target)
    graphs = [v1.GraphDef.FromString(e.graph_def) for e in recorded(tmp_path) if e.graph_def]
    assert sum("loss" in ops_of(graph) for graph in graphs) == 1


def test_deleted_graph_file_is_written_again(tmp_path: Path) -> None:
    model = trace()
    SmallLoop(model, [CheckpointSaverHook(str(tmp_path), save_steps=9)]).run(1)
    (tmp_path / "graph.pbtxt").unlink()
    SmallLoop(model, [CheckpointSaverHook(str(tmp_path), save_steps=9)]).run(2)
    assert (tmp_path / "graph.pbtxt").exists()


def test_own_saver_is_used_in_the_loop_too(tmp_path: Path) -> None:
    built = {}

    def extend(loss: tf.Tensor) -> dict[str, Any]:
        w = next(v for v in v1.global_variables() if v.op.name == "w")
        built["saver"] = v1.train.Saver({"renamed": w})
        return {}

    model = trace(extend=extend)
    hook = CheckpointSaverHook(str(tmp_path), save_steps=9, saver=built["saver"])
    loop = SmallLoop(model, [hook]).run(2)
    assert loop.saved == []
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert path == str(tmp_path / "model.ckpt-2")
    value = tf.train.load_checkpoint(path).get_tensor("renamed")
    assert value == pytest.approx([0.98**2, 0.92**2], rel=1e-6)


def test_subclass_that_saves_by_itself_finds_the_names_it_knows(tmp_path: Path) -> None:
    class Own(CheckpointSaverHook):
        """Written for TensorFlow's hook: same attributes, same calls."""

        def after_run(self, run_context, run_values):
            stale = run_values.results
            if self._timer.should_trigger_for_step(stale + self._steps_per_run):
                step = run_context.session.run(self._global_step_tensor)
                if self._timer.should_trigger_for_step(step):
                    self._timer.update_last_triggered_step(step)
                    if self._save(run_context.session, step):
                        run_context.request_stop()

        def _save(self, session, step):
            for listener in self._listeners:
                listener.before_save(session, step)
            self._get_saver().save(session, self._save_path, global_step=step)
            assert self._checkpoint_dir == str(tmp_path)
            return False

    listener = Listener()
    hook = Own(str(tmp_path), save_steps=4, listeners=[listener])
    loop = SmallLoop(trace(), [hook]).run(9)
    assert steps_saved(loop) == [0, 4, 8, 9]
    assert listener.heard == ["begin", *(("before", s) for s in (0, 4, 8, 9)), ("end", 9)]


def test_loops_saver_takes_the_step_from_the_model_if_none_is_given(tmp_path: Path) -> None:
    hook = CheckpointSaverHook(str(tmp_path), save_steps=9)
    loop = SmallLoop(trace(), [hook]).run(2)
    path = hook._get_saver().save(None, str(tmp_path / "other"))
    assert path == str(tmp_path / "other-2")
    assert loop.saved[-1] == (2, str(tmp_path), "other", True)


def test_v1_session_saves_at_the_same_steps_as_tensorflows_own(tmp_path: Path) -> None:
    for name, kind in (("ours", CheckpointSaverHook), ("theirs", v1.train.CheckpointSaverHook)):

        def hooks(loss: tf.Tensor, kind: Any = kind, name: str = name) -> list[Any]:
            return [kind(str(tmp_path / name), save_steps=4, saver=v1.train.Saver())]

        monitored_session(hooks, 9)
    saved = [sorted(p.name for p in (tmp_path / n).glob("*.index")) for n in ("ours", "theirs")]
    assert saved[0] == saved[1] == [f"model.ckpt-{s}.index" for s in (0, 4, 8, 9)]


def test_v1_session_saves_with_the_saver_of_the_scaffold(tmp_path: Path) -> None:
    scaffold = v1.train.Scaffold()
    monitored_session(
        lambda loss: [CheckpointSaverHook(str(tmp_path), save_steps=9, scaffold=scaffold)],
        2,
        scaffold=lambda: scaffold,
    )
    assert (tmp_path / "model.ckpt-2.index").exists()


def test_v1_session_without_any_saver_is_told_what_to_pass(tmp_path: Path) -> None:
    hook = CheckpointSaverHook(str(tmp_path), save_steps=1)
    with (
        tf.Graph().as_default(),
        pytest.raises(RuntimeError, match=r"No items in collection savers.*saver="),
    ):
        hook._get_saver()


def test_unwritable_graph_file_does_not_end_training(tmp_path: Path, caplog) -> None:
    (tmp_path / "graph.pbtxt").mkdir()
    (tmp_path / "graph.pbtxt" / "something").write_text("in the way")
    loop = SmallLoop(trace(), [CheckpointSaverHook(str(tmp_path), save_steps=4)]).run(2)
    assert loop.global_step() == 2
    assert any("graph could not be written" in m for m in caplog.messages)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Either every_secs or every_steps should be provided"),
        ({"save_secs": 1, "save_steps": 1}, "Can not provide both every_secs and every_steps"),
        ({"save_steps": 0}, "save_steps must be a positive number of steps, got 0"),
        ({"save_steps": 1, "saver": 1, "scaffold": 2}, "cannot provide both saver and scaffold"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckpointSaverHook("directory", **arguments)
