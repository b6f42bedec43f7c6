"""Event files: what TensorBoard, early stopping and the best exporter read.

One writer per directory and process, opened by its first event, so that a directory in which
nothing is recorded stays empty. It shares the file of `tf.compat.v1.summary.FileWriterCache`:
TensorBoard follows only the newest file of a directory, so two writers would hide each other.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> writer = EventWriter.get(folder)
>>> writer.scalars({"loss": 0.5, "accuracy": 0.75}, step=10)
>>> writer.close()
>>> read_scalars(folder)
{'accuracy': [(10, 0.75)], 'loss': [(10, 0.5)]}
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from estimand.core import tf_private
from estimand.core.errors import EstimandError
from estimand.engine.model_dir import anchored

_log = logging.getLogger("tensorflow")

_Summary = tf.compat.v1.Summary
_Event = tf.compat.v1.Event
_IN_NAME = "tfevents"
_MOST_OPEN = 8


class EventWriteError(EstimandError, OSError):
    """An event file could not be written: disk full, permission, vanished directory."""


class EventWriter:
    """Appends events to the one event file this process has in a directory.

    Safe to use from several threads. After `close`, the next event opens a new file.
    """

    _by_directory: ClassVar[dict[str, EventWriter]] = {}
    _by_directory_lock: ClassVar[threading.Lock] = threading.Lock()
    _open: ClassVar[dict[str, EventWriter]] = {}  # the one that recorded last at the end

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        self._lock = threading.RLock()
        self._used = False
        self._closed = False

    @classmethod
    def get(cls, directory: str | os.PathLike[str]) -> EventWriter:
        """The writer of this process for `directory`; the same object every time.

        Meant to be asked for at the start of each piece of work: if the files were deleted since
        the last one, the writer starts a new file instead of writing into the deleted one.
        """
        with cls._by_directory_lock:
            path = anchored(directory)
            writer = cls._by_directory.setdefault(path, cls(path))
        writer._forget_deleted_file()
        return writer

    def scalar(self, tag: str, value: Any, step: int) -> None:
        """Records one number."""
        self.scalars({tag: value}, step)

    def scalars(self, values: Mapping[str, Any], step: int) -> None:
        """Records several numbers as one event, in the order of their tags."""
        summary = _Summary()
        for tag in sorted(values):
            summary.value.add(tag=tag, simple_value=float(values[tag]))
        self._add(_Event(summary=summary), step)

    def summary(self, summary: tf.compat.v1.Summary, step: int) -> None:
        """Records a v1 `Summary`: the message itself, or its bytes as a summary op returns them."""
        content = summary if isinstance(summary, bytes) else summary.SerializeToString()
        copy = _Summary.FromString(content)  # The writer removes plugin data it has seen before.
        with self._lock, self._explained():
            self.file_writer.add_summary(copy, int(step))

    def graph(self, graph_def: tf.compat.v1.GraphDef, step: int = 0) -> None:
        """Records a `GraphDef` for the graph view of TensorBoard."""
        self._add(_Event(graph_def=graph_def.SerializeToString()), step)

    def add_graph(self, graph: tf.Graph, step: int = 0) -> None:
        """Records a graph, function graphs included, with the shapes of its tensors."""
        self.graph(graph.as_graph_def(add_shapes=True), step)

    def session_log(self, status: str | int, step: int, checkpoint_path: str = "") -> None:
        """Records the start of a run or a saved checkpoint.

        Args:
          status: "START", "CHECKPOINT" or "STOP", or the number `SessionLog` has for it.
          step: the global step.
          checkpoint_path: the prefix of the checkpoints, for "CHECKPOINT".
        """
        session_log = tf.compat.v1.SessionLog
        number = session_log.SessionStatus.Value(status) if isinstance(status, str) else status
        message = session_log(status=number, checkpoint_path=checkpoint_path)
        self._add(_Event(session_log=message), step)

    def flush(self) -> None:
        """Returns when everything recorded so far is in the file. Never creates a file."""
        with self._lock, self._explained():
            if self._used and not self._closed:
                self.file_writer.flush()

    def close(self) -> None:
        """Flushes, and ends the file and its thread."""
        with self._lock, self._explained():
            if self._used and not self._closed:
                _cached_file_writer(self.directory).close()
                self._closed = True
                with self._by_directory_lock:
                    self._open.pop(self.directory, None)

    @property
    def file_writer(self) -> tf.compat.v1.summary.FileWriter:
        """The open `FileWriter` underneath, for hooks that want one. Creates the file if needed."""
        with self._lock, self._explained():
            if self._closed:
                tf.io.gfile.makedirs(self.directory)
                _wait_for_free_file_name(self.directory)
            writer = _cached_file_writer(self.directory)
            writer.reopen()  # Somebody else may have closed it; else this does nothing.
            self._used, self._closed = True, False
            self._stay_few()
            return writer

    def _stay_few(self) -> None:
        """A program that makes many estimators must not keep a file open for each of them."""
        with self._by_directory_lock:
            self._open.pop(self.directory, None)
            self._open[self.directory] = self
            idle = list(self._open.values())[: max(0, len(self._open) - _MOST_OPEN)]
        for writer in idle:
            if writer._lock.acquire(blocking=False):  # else it is recording, so not idle
                try:
                    with contextlib.suppress(EventWriteError):  # no concern of this directory
                        writer.close()
                finally:
                    writer._lock.release()

    def _add(self, event: tf.compat.v1.Event, step: int) -> None:
        event.wall_time = time.time()
        event.step = int(step)
        with self._lock, self._explained():
            self.file_writer.add_event(event)

    def _forget_deleted_file(self) -> None:
        with self._lock:
            if not self._used or self._closed:
                return
            self.flush()  # The file appears with the first flush: before it, absence says nothing.
            if not event_files(self.directory):
                self.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns the many types the file layer raises (even IndexError: disk full) into one."""
        try:
            yield
        except EventWriteError:
            raise
        except Exception as error:
            raise EventWriteError(
                f"Events for TensorBoard could not be written to {self.directory!r}: {error}. "
                "Make room on the disk or make the directory writable and start again; "
                "checkpoints saved so far are intact."
            ) from error


def write_eval_results(
    directory: str | os.PathLike[str],
    results: Mapping[str, Any],
    step: int,
    checkpoint_path: str | None,
) -> None:
    """Records what an evaluation returned, as `tf.estimator` did, and says so in the log.

    Numbers become scalars, arrays tensors, and bytes are taken for a serialized `Summary` whose
    values are renamed `key/0`, `key/1`, …; a second event names the checkpoint, if there is one.

    Args:
      directory: usually `model_dir/eval` or `model_dir/eval_<name>`.
      results: metrics by name; `global_step` is not recorded, for it is the event's own step.
      step: the global step of the evaluated checkpoint.
      checkpoint_path: the evaluated checkpoint; None or "" if there was none.
    """
    writer = EventWriter.get(directory)
    _log.info("Saving dict for global step %d: %s", step, _in_one_line(results))
    summary = _Summary()
    for key, value in results.items():
        if key != "global_step" and value is not None:
            summary.value.extend(_values_of_result(key, value))
    writer.summary(summary, step)
    if checkpoint_path:
        _log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint_path)
        path = tf.make_tensor_proto(checkpoint_path, dtype=tf.string)
        writer.summary(_Summary(value=[_Summary.Value(tag="checkpoint_path", tensor=path)]), step)
    writer.flush()


def event_files(directory: str | os.PathLike[str]) -> list[str]:
    """The event files of a directory, oldest first (their names begin with a time stamp)."""
    try:
        names = tf.io.gfile.listdir(directory)
    except tf.errors.NotFoundError:
        return []
    event_files = sorted(name for name in names if _IN_NAME in name)
    return [os.path.join(os.fspath(directory), name) for name in event_files]


def read_events(path: str) -> Iterator[Any]:
    """The events of one file; ends with a warning where the file is cut off or damaged."""
    try:
        with _without_deprecation_notice():
            events = tf.compat.v1.train.summary_iterator(path)
        yield from events
    except (tf.errors.OpError, DecodeError) as error:
        # A file being written, or left by a crash, ends in the middle of a record.
        _log.warning("Reading %s stopped before its end: %s", path, error)


def read_scalars(directory_or_file: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """All numbers by tag as (step, value), in the order in which they were written.

    Both v1 scalars and v2 scalars (tensors of rank 0) count.
    """
    by_tag: dict[str, list[tuple[int, float]]] = {}
    for scalar in read_timed_scalars(directory_or_file):
        by_tag.setdefault(scalar.tag, []).append((scalar.step, scalar.value))
    return by_tag


class TimedScalar(NamedTuple):
    """One number of an event file, and when it was written (seconds since 1970)."""

    tag: str
    step: int
    seconds: float
    value: float


def read_timed_scalars(directory_or_file: str | os.PathLike[str]) -> Iterator[TimedScalar]:
    """All numbers, v1 and v2 scalars alike, in the order in which they were written."""
    for event in _all_events(directory_or_file):
        for value in event.summary.value:
            number = _number_in(value)
            if number is not None:
                yield TimedScalar(value.tag, event.step, event.wall_time, number)


class StartOfTraining(NamedTuple):
    """A process began with training, or went on; `step` is the first that it made."""

    step: int
    seconds: float  # since 1970
    reached: int  # the last step that the process before it told of


def read_starts(directory: str | os.PathLike[str]) -> list[StartOfTraining]:
    """Each start of a training, in their order."""
    starts: list[StartOfTraining] = []
    reached = 0
    for event in _all_events(directory):
        if event.HasField("session_log"):
            if event.session_log.status == tf.compat.v1.SessionLog.START:
                starts.append(StartOfTraining(event.step, event.wall_time, reached))
                reached = 0
        elif event.HasField("summary"):
            reached = max(reached, event.step)
    return starts


def _all_events(directory_or_file: str | os.PathLike[str]) -> Iterator[Any]:
    path = os.fspath(directory_or_file)
    for file in event_files(path) if tf.io.gfile.isdir(path) else [path]:
        yield from read_events(file)


def _cached_file_writer(directory: str) -> tf.compat.v1.summary.FileWriter:
    cache = tf.compat.v1.summary.FileWriterCache
    with tf_private.eager_mode():
        # Making one is refused in eager mode, finding one is not: the cheap way to see which.
        try:
            return cache.get(directory)
        except RuntimeError:
            _wait_for_free_file_name(directory)
    with tf.Graph().as_default():  # It records the default graph: an empty one, not the caller's.
        return cache.get(directory)


def _wait_for_free_file_name(directory: str) -> None:
    """Names count whole seconds, and opening a file that exists empties it: let time pass."""
    while True:
        prefix = os.path.join(directory, f"events.out.tfevents.{int(time.time()):010d}.")
        # TF2 writers add their process id and ".v2", so they never collide with ours.
        if all(name.endswith(".v2") for name in tf.io.gfile.glob(prefix + "*")):
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _without_deprecation_notice() -> Iterator[None]:
    """`summary_iterator` is public, but logs that what it calls itself is deprecated."""

    def keep(record: logging.LogRecord) -> bool:
        return "tf_record_iterator" not in record.getMessage()

    _log.addFilter(keep)
    try:
        yield
    finally:
        _log.removeFilter(keep)


def _in_one_line(results: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in results.items() if not isinstance(value, bytes)}
    # !s: np.float32 formats like a double (0.36515763402), but its str is short (0.36515763).
    return ", ".join(f"{key} = {shown[key]!s}" for key in sorted(shown))


def _values_of_result(key: str, value: Any) -> list[Any]:
    if isinstance(value, bytes):
        return _values_of_serialized_summary(key, value)
    if isinstance(value, np.ndarray):
        _log.info("Summary for np.ndarray is not visible in Tensorboard by default: %s.", key)
        return [_Summary.Value(tag=key, node_name=key, tensor=tf.make_tensor_proto(value))]
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return [_Summary.Value(tag=key, simple_value=float(value))]
    _log.warning(
        "Skipping summary for %s, must be a float, np.float32, np.int64, np.int32 or int or "
        "np.ndarray or a serialized string of Summary. Its type is %s.",
        key,
        type(value).__name__,
    )
    return []


def _values_of_serialized_summary(key: str, serialized: bytes) -> list[Any]:
    try:
        summary = _Summary.FromString(serialized)
    except DecodeError:
        _log.warning("Skipping summary for %s, cannot parse string to Summary.", key)
        return []
    for i, value in enumerate(summary.value):
        value.tag = f"{key}/{i}"
    return list(summary.value)


def _number_in(value: Any) -> float | None:
    if value.HasField("simple_value"):
        return value.simple_value
    if value.HasField("tensor") and not value.tensor.tensor_shape.dim:
        array = tf.make_ndarray(value.tensor)
        if array.dtype.kind in "biuf":
            return float(array)
    return None
