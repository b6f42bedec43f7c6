"""Event files: contents as tf.estimator 2.15 wrote them, one file per directory, faults."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import EstimandError
from estimand.engine.events import (
    EventWriteError,
    EventWriter,
    event_files,
    read_events,
    read_scalars,
    write_eval_results,
)
from tests import forked

UPSTREAM = json.loads((Path(__file__).parent / "data" / "eval_events.json").read_text())
Summary = tf.compat.v1.Summary


def events_in(directory: Path, kind: str) -> list:
    return [
        event
        for file in event_files(directory)
        for event in read_events(file)
        if event.WhichOneof("what") == kind
    ]


def value_from_json(document: dict) -> object:
    if "bytes" in document:
        return base64.b64decode(document["bytes"])
    content = document.get("array", document.get("scalar"))
    if document["dtype"] == "object":
        content = [text.encode() for text in content]
    array = np.array(content).astype(document["dtype"]).reshape(document["shape"])
    return array if "array" in document else array[()]


@pytest.fixture
def upstream_results() -> dict:
    return {key: value_from_json(document) for key, document in UPSTREAM["results"].items()}


@pytest.fixture
def tensorflow_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    caplog.set_level(logging.INFO, logger="tensorflow")
    return caplog


# ---------------------------------------------------------------- evaluation results


def test_eval_results_are_recorded_as_upstream_recorded_them(tmp_path, upstream_results):
    del upstream_results["half"]  # upstream leaves half precision out; see the next test
    write_eval_results(tmp_path, upstream_results, 3, "model/model.ckpt-3")
    recorded = [
        (event.step, [value.SerializeToString() for value in event.summary.value])
        for event in events_in(tmp_path, "summary")
    ]
    assert recorded == [
        (event["step"], [base64.b64decode(value) for value in event["values"]])
        for event in UPSTREAM["events"]
    ]


def test_numpy_scalars_that_upstream_skipped_are_recorded_too(tmp_path):
    results = {"half": np.float16(0.5), "byte": np.uint8(3), "flag": np.bool_(True)}
    write_eval_results(tmp_path, results, 1, None)
    assert read_scalars(tmp_path) == {"half": [(1, 0.5)], "byte": [(1, 3)], "flag": [(1, 1)]}


def test_log_lines_of_eval_results_read_as_upstream_wrote_them(
    tmp_path, upstream_results, tensorflow_log
):
    write_eval_results(tmp_path, upstream_results, 3, "model/model.ckpt-3")
    expected = [line for line in UPSTREAM["log"] if "half, must be" not in line]
    assert [line for line in tensorflow_log.messages if "np.ndarray" not in line] == expected


def test_no_checkpoint_event_without_a_checkpoint(tmp_path):
    write_eval_results(tmp_path, {"loss": 0.5}, 0, None)
    (event,) = events_in(tmp_path, "summary")
    assert [value.tag for value in event.summary.value] == ["loss"]


def test_results_of_other_types_are_skipped_with_a_warning(tmp_path, tensorflow_log):
    write_eval_results(tmp_path, {"loss": 1.0, "note": "text", "nothing": None}, 2, None)
    assert read_scalars(tmp_path) == {"loss": [(2, 1.0)]}
    warnings = [r.getMessage() for r in tensorflow_log.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith("Skipping summary for note, must be a float, np.float32,")
    assert warnings[0].endswith("Its type is str.")


def test_results_can_be_read_at_once_by_another_process(tmp_path):
    write_eval_results(tmp_path, {"loss": 0.25}, 7, "model.ckpt-7")
    read_back = subprocess.run(
        ["cat", *event_files(tmp_path)], capture_output=True, check=True
    ).stdout
    assert b"model.ckpt-7" in read_back


# ---------------------------------------------------------------- the writer


def test_nothing_is_created_before_the_first_event(tmp_path):
    writer = EventWriter.get(tmp_path / "eval")
    writer.flush()
    writer.close()
    assert not (tmp_path / "eval").exists()


def test_one_writer_and_one_file_per_directory(tmp_path):
    EventWriter.get(tmp_path).scalar("loss", 1.0, 1)
    assert EventWriter.get(str(tmp_path)) is EventWriter.get(tmp_path)
    EventWriter.get(tmp_path).scalar("loss", 0.5, 2)
    EventWriter.get(tmp_path).flush()
    assert len(event_files(tmp_path)) == 1
    assert read_scalars(tmp_path) == {"loss": [(1, 1.0), (2, 0.5)]}


def test_users_of_the_file_writer_cache_share_the_file(tmp_path):
    writer = EventWriter.get(tmp_path)
    writer.scalar("ours", 1.0, 1)
    theirs = tf.compat.v1.summary.FileWriterCache.get(str(tmp_path))
    theirs.add_summary(Summary(value=[Summary.Value(tag="theirs", simple_value=2.0)]), 1)
    writer.flush()
    assert len(event_files(tmp_path)) == 1
    assert read_scalars(tmp_path) == {"ours": [(1, 1.0)], "theirs": [(1, 2.0)]}


def test_events_go_on_after_somebody_cleared_the_file_writer_cache(tmp_path):
    writer = EventWriter.get(tmp_path)
    writer.scalar("loss", 1.0, 1)
    tf.compat.v1.summary.FileWriterCache.clear()
    writer.scalar("loss", 0.5, 2)
    writer.close()
    assert read_scalars(tmp_path) == {"loss": [(1, 1.0), (2, 0.5)]}


def test_closing_and_going_on_within_a_second_loses_nothing(tmp_path):
    # File names count whole seconds, and TensorFlow empties a file that is opened again.
    writer = EventWriter.get(tmp_path)
    writer.scalar("loss", 1.0, 1)
    writer.close()
    writer.scalar("loss", 0.5, 2)
    writer.close()
    assert read_scalars(tmp_path) == {"loss": [(1, 1.0), (2, 0.5)]}


@pytest.mark.parametrize("made_again", [False, True])
def test_a_deleted_model_dir_gets_a_new_file(tmp_path, made_again):
    folder = tmp_path / "model"
    EventWriter.get(folder).scalar("loss", 1.0, 1)
    EventWriter.get(folder).flush()
    shutil.rmtree(folder)
    if made_again:
        folder.mkdir()
    EventWriter.get(folder).scalar("loss", 0.5, 1)
    EventWriter.get(folder).flush()
    assert read_scalars(folder) == {"loss": [(1, 0.5)]}


def test_scalars_are_one_event_in_the_order_of_their_tags(tmp_path):
    writer = EventWriter.get(tmp_path)
    writer.scalars({"b": np.float32(2), "a": 1, "c": tf.constant(3.0)}, np.int64(4))
    writer.flush()
    (event,) = events_in(tmp_path, "summary")
    found = [(value.tag, value.simple_value) for value in event.summary.value]
    assert (event.step, found) == (4, [("a", 1.0), ("b", 2.0), ("c", 3.0)])


def test_what_a_summary_op_returns_is_recorded_unchanged(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        op = tf.compat.v1.summary.histogram("weights", [1.0, 2.0, 2.0])
        serialized = session.run(op)
    writer = EventWriter.get(tmp_path)
    writer.summary(serialized, 5)
    writer.summary(Summary.FromString(serialized), 6)
    writer.flush()
    events = events_in(tmp_path, "summary")
    assert [event.step for event in events] == [5, 6]
    assert all(event.summary.SerializeToString() == serialized for event in events)


def test_a_recorded_summary_keeps_its_plugin_data_in_the_callers_hands(tmp_path):
    metadata = tf.compat.v1.SummaryMetadata(display_name="Loss")
    summary = Summary(value=[Summary.Value(tag="loss", simple_value=1.0, metadata=metadata)])
    writer = EventWriter.get(tmp_path)
    writer.summary(summary, 1)
    writer.summary(summary, 2)
    assert summary.value[0].metadata.display_name == "Loss"


def test_writing_works_inside_a_graph_without_touching_it(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="theirs")
        EventWriter.get(tmp_path).scalar("loss", 1.0, 1)
    EventWriter.get(tmp_path).flush()
    assert [op.name for op in graph.get_operations()] == ["theirs"]
    assert read_scalars(tmp_path) == {"loss": [(1, 1.0)]}
    assert not any(b"theirs" in event.graph_def for event in events_in(tmp_path, "graph_def"))


def test_a_function_graph_is_recorded_with_shapes(tmp_path):
    traced = tf.function(lambda x: tf.square(x, name="squared")).get_concrete_function(
        tf.TensorSpec([2, 3])
    )
    writer = EventWriter.get(tmp_path)
    writer.add_graph(traced.graph)
    writer.flush()
    graph_def = tf.compat.v1.GraphDef.FromString(events_in(tmp_path, "graph_def")[-1].graph_def)
    (node,) = [node for node in graph_def.node if node.name == "squared"]
    shape = node.attr["_output_shapes"].list.shape[0]
    assert [dimension.size for dimension in shape.dim] == [2, 3]


def test_session_logs_name_starts_and_checkpoints(tmp_path):
    writer = EventWriter.get(tmp_path)
    writer.session_log("CHECKPOINT", 0, "m/model.ckpt")
    writer.session_log(tf.compat.v1.SessionLog.START, 1)
    writer.flush()
    found = [
        (event.step, event.session_log.status, event.session_log.checkpoint_path)
        for event in events_in(tmp_path, "session_log")
    ]
    start, checkpoint = tf.compat.v1.SessionLog.START, tf.compat.v1.SessionLog.CHECKPOINT
    assert found == [(0, checkpoint, "m/model.ckpt"), (1, start, "")]


def test_an_unwritable_directory_is_named_with_what_to_do(tmp_path):
    (tmp_path / "a_file").write_text("")
    writer = EventWriter.get(tmp_path / "a_file")
    with pytest.raises(EventWriteError, match=r"'.*a_file'.*not a directory.*start again") as info:
        writer.scalar("loss", 1.0, 1)
    assert isinstance(info.value, EstimandError)
    assert isinstance(info.value, OSError)


DISK_FULL = """
import resource, sys
from estimand.engine.events import EventWriter, EventWriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
writer = EventWriter.get(sys.argv[1])
try:
    for step in range(1000):
        writer.scalar("loss", 1.0, step)
    writer.flush()
except EventWriteError as error:
    print("told:", error)
"""


def test_a_full_disk_is_told_in_one_type_of_error(tmp_path):
    printed = forked.run(["-c", DISK_FULL, tmp_path]).stdout
    assert printed.startswith(f"told: Events for TensorBoard could not be written to '{tmp_path}'")
    assert "File too large" in printed


# ---------------------------------------------------------------- reading


def test_a_truncated_file_gives_what_is_whole_and_a_warning(tmp_path, tensorflow_log):
    writer = EventWriter.get(tmp_path)
    for step in (1, 2, 3):
        writer.scalar("loss", step, step)
    writer.close()
    (file,) = event_files(tmp_path)
    Path(file).write_bytes(Path(file).read_bytes()[:-5])
    assert read_scalars(file) == {"loss": [(1, 1.0), (2, 2.0)]}
    assert any("stopped before its end" in message for message in tensorflow_log.messages)


def test_files_after_a_truncated_one_are_still_read(tmp_path):
    writer = EventWriter.get(tmp_path)
    writer.scalar("loss", 2.0, 2)
    writer.close()
    (tmp_path / "events.out.tfevents.0000000001.host").write_bytes(b"\x18\x00\x00")
    assert read_scalars(tmp_path) == {"loss": [(2, 2.0)]}


def test_scalars_of_v2_summaries_are_read_and_arrays_are_not(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=9):
        tf.summary.scalar("rate", 0.5)
        tf.summary.histogram("weights", [1.0, 2.0])
        tf.summary.text("note", "hello")
    writer.close()
    assert read_scalars(tmp_path) == {"rate": [(9, 0.5)]}


def test_an_empty_directory_has_no_scalars(tmp_path):
    assert read_scalars(tmp_path) == {}


# ---------------------------------------------------------------- in a process of its own

FRESH = """
import sys
import estimand.engine.events as events
assert "tensorboard" not in sys.modules
events.EventWriter.get(sys.argv[1]).scalar("loss", 1.0, 1)
events.EventWriter.get(sys.argv[1]).close()
print(events.read_scalars(sys.argv[1]))
print("tensorboard" in sys.modules)
"""


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory) -> subprocess.CompletedProcess:
    folder = tmp_path_factory.mktemp("fresh")
    return forked.run(["-c", FRESH, folder])


def test_neither_importing_nor_writing_nor_reading_loads_tensorboard(fresh_process):
    assert fresh_process.stdout.splitlines() == ["{'loss': [(1, 1.0)]}", "False"]


def test_reading_says_nothing_about_deprecation(fresh_process):
    assert fresh_process.returncode == 0
    assert "deprecated" not in fresh_process.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="cannot count open files here")
def test_a_hundred_directories_do_not_keep_a_hundred_files_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = open_files()
    for number in range(100):
        EventWriter.get(tmp_path / str(number)).scalar("loss", number, step=1)
    assert open_files() - before < 20
    for number in range(100):
        EventWriter.get(tmp_path / str(number)).flush()
        assert read_scalars(tmp_path / str(number)) == {"loss": [(1, float(number))]}


def test_a_file_closed_for_others_sake_is_followed_by_a_new_one(tmp_path: Path) -> None:
    for number in range(12):
        EventWriter.get(tmp_path / str(number)).scalar("loss", 0.0, step=1)
    EventWriter.get(tmp_path / "0").scalar("loss", 1.0, step=2)
    EventWriter.get(tmp_path / "0").flush()
    assert read_scalars(tmp_path / "0") == {"loss": [(1, 0.0), (2, 1.0)]}


def test_the_files_of_a_directory_whose_name_looks_like_a_pattern_are_found(tmp_path):
    directory = tmp_path / "model[1]*"
    EventWriter.get(directory).scalar("loss", 1.0, step=1)
    EventWriter.get(directory).flush()
    assert [Path(f).parent for f in event_files(directory)] == [directory]
    assert event_files(tmp_path / "not there") == []
