"""What happens around a checkpoint, and who is told; nothing is saved here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format

import estimand as est
from estimand.engine.events import EventWriter, event_files, read_events
from estimand.engine.saving.save_policy import SavePolicy
from estimand.engine.saving.taking import CheckpointTaker

SESSION: Any = "the session"
EVERY_FOUR = SavePolicy(steps=4)


class Listener(est.CheckpointSaverListener):
    def __init__(self, heard: list[Any], name: str = "a", stops: bool | None = None) -> None:
        self.heard, self.name, self.stops = heard, name, stops

    def begin(self) -> None:
        self.heard.append((self.name, "begin"))

    def before_save(self, session: Any, global_step: int) -> None:
        assert session is SESSION
        self.heard.append((self.name, "before", global_step))

    def after_save(self, session: Any, global_step: int) -> bool | None:
        assert session is SESSION
        self.heard.append((self.name, "after", global_step))
        return self.stops

    def end(self, session: Any, global_step: int) -> None:
        self.heard.append((self.name, "end", global_step))


class NotReading(Listener):
    reads_files = False


@dataclass
class Taken:
    """A taker with a clock that is moved by hand, and what it wrote and said."""

    directory: Path
    heard: list[Any] = field(default_factory=list)
    now: float = 0.0

    def taker(
        self, *listeners: Listener, policy: SavePolicy = EVERY_FOUR, **options: Any
    ) -> CheckpointTaker:
        taker = CheckpointTaker(
            policy, str(self.directory / "model.ckpt"), self._write, listeners,
            clock=lambda: self.now, **options,
        )  # fmt: skip
        taker.begin()
        return taker

    def _write(self, session: Any, step: int, synchronous: bool) -> None:
        assert session is SESSION
        self.heard.append(("written" if synchronous else "being written", step))

    def events(self) -> list[Any]:
        EventWriter.get(str(self.directory)).close()
        return [event for file in event_files(str(self.directory)) for event in read_events(file)]


@pytest.fixture
def taken(tmp_path: Path) -> Any:
    taken = Taken(tmp_path)
    yield taken
    EventWriter.get(str(tmp_path)).close()


def test_listeners_hear_of_it_around_the_writing(taken: Taken) -> None:
    taker = taken.taker(Listener(taken.heard, "a"), Listener(taken.heard, "b"))
    taker.take(SESSION, 7)
    taker.end(SESSION, 9)
    assert taken.heard == [
        ("a", "begin"), ("b", "begin"),
        ("a", "before", 7), ("b", "before", 7),
        ("written", 7),
        ("a", "after", 7), ("b", "after", 7),
        ("a", "end", 9), ("b", "end", 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "how"),
    [
        ([], "being written"),
        ([NotReading], "being written"),
        ([NotReading, Listener], "written"),
    ],
)
def test_training_waits_for_files_if_a_listener_may_read_them(
    taken: Taken, kinds: list[type[Listener]], how: str
) -> None:
    taken.taker(*(kind([]) for kind in kinds)).take(SESSION, 3)
    assert taken.heard == [(how, 3)]


@pytest.mark.parametrize(("stops", "stop"), [(None, False), (False, False), (True, True)])
def test_listener_can_ask_to_stop_and_the_others_hear_of_it_all_the_same(
    taken: Taken, stops: bool | None, stop: bool
) -> None:
    taker = taken.taker(Listener(taken.heard, "a", stops), Listener(taken.heard, "b"))
    assert taker.take(SESSION, 1) is stop
    assert ("b", "after", 1) in taken.heard


def test_none_is_due_before_the_first_and_then_as_the_policy_says(taken: Taken) -> None:
    taker = taken.taker()
    assert taker.due_in(100) is None and not taker.is_due(100)
    taker.take(SESSION, 100)
    assert taker.due_in(101) == 3
    assert [step for step in range(100, 106) if taker.is_due(step)] == [104, 105]


def test_none_is_due_where_one_was_taken(taken: Taken) -> None:
    taker = taken.taker(policy=SavePolicy(secs=60))
    taker.take(SESSION, 5)
    taken.now = 61.0
    assert taker.has(5) and not taker.is_due(5)
    assert not taker.has(6) and taker.is_due(6)


def test_one_out_of_turn_puts_off_the_next(taken: Taken) -> None:
    taker = taken.taker(policy=SavePolicy(secs=60))
    taker.take(SESSION, 0)
    taken.now = 50.0
    taker.take(SESSION, 3)
    taken.now = 61.0
    assert not taker.is_due(8)
    taken.now = 110.0
    assert taker.is_due(9)


def test_steps_that_stood_still_are_not_in_it(taken: Taken) -> None:
    taker = taken.taker()
    assert not taker.misses(motionless=2)  # there is none that could miss anything
    taker.take(SESSION, 5, motionless=2)
    assert not taker.misses(motionless=2) and taker.misses(motionless=3)


def test_another_run_begins_with_none(taken: Taken) -> None:
    taker = taken.taker()
    taker.take(SESSION, 5)
    taker.begin()
    assert not taker.has(5) and not taker.is_due(500) and not taker.misses(motionless=1)


def test_event_file_tells_of_it(taken: Taken) -> None:
    taken.taker().take(SESSION, 12)
    [event] = [e for e in taken.events() if e.HasField("session_log")]
    assert event.step == 12
    assert event.session_log.status == tf.compat.v1.SessionLog.CHECKPOINT
    assert event.session_log.checkpoint_path == str(taken.directory / "model.ckpt")


@pytest.mark.parametrize("as_file", [True, False])
def test_graph_lies_beside_them_when_all_is_over(taken: Taken, as_file: bool) -> None:
    taker = taken.taker(save_graph_def=as_file)
    with tf.Graph().as_default() as graph:
        tf.constant(3, name="three")
    taker.record_graph(graph)
    taker.end(SESSION, 0)
    path = taken.directory / "graph.pbtxt"
    assert path.exists() == as_file
    if as_file:
        written = text_format.Parse(path.read_text(), tf.compat.v1.GraphDef())
        assert [node.name for node in written.node] == ["three"]
    recorded = [event.graph_def for event in taken.events() if event.graph_def]
    graph_def = tf.compat.v1.GraphDef.FromString(recorded[-1])  # the first is the writer's own
    assert [node.name for node in graph_def.node] == ["three"]
