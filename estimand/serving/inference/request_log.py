"""A sample of the requests with their answers, in files that can warm a model up.

Each file holds at most as many records as a warm-up file may, so that any of them can be copied
to a version's `assets.extra/tf_serving_warmup_requests`. The oldest files go when there are too
many. Writing is done by a thread; when it does not keep up, or the disk is full, requests are not
logged, and are answered all the same; what was logged before stays.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from estimand.serving.flags import Flags
from estimand.serving.json.slots import JsonSignature, JsonSlot
from estimand.serving.metrics import Metrics
from estimand.serving.status import NUMBERS, invalid

log = logging.getLogger("estimand.serving")

MAX_RECORDS = 1000  # of a file that warms a model up
_MAX_WAITING = 256
_MAX_WAITING_BYTES = 64 * 2**20
_FLUSH_SECONDS = 1.0
_REST_SECONDS = 5.0  # after a write that failed
_OK, _FULL = 0, NUMBERS["RESOURCE_EXHAUSTED"]


@dataclass(frozen=True)
class LogSettings:
    """Where the log of a model goes, and how much of it."""

    prefix: str
    rate: float

    @classmethod
    def of(cls, name: str, message: Any, flags: Flags) -> LogSettings | None:
        """From the LoggingConfig of a model, or the flags where it has none."""
        collector, rate = message.log_collector_config, message.sampling_config.sampling_rate
        if not message.ListFields():
            return cls.from_flags(name, flags)
        if collector.type not in ("", "tfrecord"):
            raise invalid(
                f"Model {name}: there is no log collector of type {collector.type!r}; leave the "
                "type out, or set 'tfrecord'."
            )
        if not 0.0 <= rate <= 1.0:
            raise invalid(f"Model {name}: sampling_rate is {rate}; it has to be from 0 to 1.")
        return cls(_placed(name, collector.filename_prefix, flags), rate) if rate else None

    @classmethod
    def from_flags(cls, name: str, flags: Flags) -> LogSettings | None:
        rate = flags.request_log_sampling_rate
        return cls(_placed(name, "", flags), rate) if rate else None


def _placed(name: str, prefix: str, flags: Flags) -> str:
    """Inside the directory of the logs, whatever a configuration says: it may come by network."""
    if not flags.request_log_dir:
        raise invalid(
            f"Model {name} asks for a request log, but the server has no --request_log_dir=DIR to "
            "write it to."
        )
    folder = os.path.abspath(flags.request_log_dir)
    path = os.path.normpath(os.path.join(folder, prefix or quote(f"model-{name}", safe="")))
    if not path.startswith(os.path.join(folder, "")):
        raise invalid(
            f"Model {name}: filename_prefix {prefix!r} leads out of --request_log_dir={folder}. "
            "Give a name inside it, such as 'ranking'."
        )
    return path


class LoggedVersion(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...


class LoggedPlan(Protocol):
    """What a request is to be written down with: a `Plan` is one."""

    @property
    def signature(self) -> JsonSignature: ...

    @property
    def inputs(self) -> Sequence[JsonSlot]: ...

    @property
    def outputs(self) -> Sequence[JsonSlot]: ...


class RequestLog:
    """One for the whole server. `configure` says which models are logged."""

    def __init__(self, flags: Flags, metrics: Metrics | None = None, worker: int = 0) -> None:
        self._flags = flags
        self._metrics = metrics
        self._suffix = f"w{worker}" if flags.num_workers > 1 else ""
        self._settings: Mapping[str, LogSettings] = {}
        self._queue: queue.Queue[Any] = queue.Queue(_MAX_WAITING)
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._warned = 0.0

    def configure(self, settings: Mapping[str, LogSettings]) -> None:
        self._settings = settings
        if settings and self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="request log", daemon=True)
            self._thread.start()

    def wants(self, model: str) -> bool:
        """Whether this one is of the sample."""
        settings = self._settings.get(model)
        return settings is not None and random.random() < settings.rate

    def add(self, version: LoggedVersion, kind: str, request: Any, answer: Any, size: int) -> None:
        """`kind` is a field of PredictionLog. The messages come whole, as bytes, or as a call that
        makes them; `size` is about what they take."""
        if self._waiting_bytes + size > _MAX_WAITING_BYTES:
            self._count(version.name, _FULL)
            return
        settings = self._settings[version.name]
        item = settings, version.name, version.number, kind, request, answer, size
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._count(version.name, _FULL)
            return
        with self._lock:
            self._waiting_bytes += size
        self._count(version.name, _OK)

    def add_predict(
        self,
        version: LoggedVersion,
        plan: LoggedPlan,
        arrays: Sequence[Any],
        outputs: Sequence[Any],
        size: int,
    ) -> None:
        """What came as JSON, as the messages it would have been."""

        def request() -> Any:
            from tensorflow_serving.apis import predict_pb2

            return _filled(predict_pb2.PredictRequest(), "inputs", version, plan, arrays)

        def answer() -> Any:
            from tensorflow_serving.apis import predict_pb2

            return _filled(predict_pb2.PredictResponse(), "outputs", version, plan, outputs)

        self.add(version, "predict_log", request, answer, size)

    def add_inference(
        self,
        version: LoggedVersion,
        action: str,
        signature: str,
        given: Any,
        result: Any,
        size: int,
    ) -> None:
        """The same for classify and regress."""
        from tensorflow_serving.apis import prediction_log_pb2

        made = prediction_log_pb2.PredictionLog()
        part = getattr(made, f"{action}_log")
        part.request.input.CopyFrom(given)
        part.response.result.CopyFrom(result)
        for message in (part.request, part.response):
            message.model_spec.name, message.model_spec.signature_name = version.name, signature
        self.add(version, f"{action}_log", part.request, part.response, size)

    def close(self) -> None:
        """Writes what waits."""
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=5)
            except queue.Full:
                return
            self._thread.join(5)

    def _count(self, model: str, code: int) -> None:
        if self._metrics is not None:
            self._metrics.logged(model, code)

    # ------------------------------------------------------------ on the thread

    def _write_all(self) -> None:
        files: dict[str, _LogFile] = {}
        item: Any = ()
        flushed = time.monotonic()
        while item is not None:
            try:
                item = self._queue.get(timeout=_FLUSH_SECONDS)
            except queue.Empty:
                item = ()
            if item:
                with self._lock:
                    self._waiting_bytes -= item[-1]
                self._guarded(self._write, files, item)
            if time.monotonic() - flushed >= _FLUSH_SECONDS:
                flushed = time.monotonic()
                for file in files.values():
                    self._guarded(file.flush)
        for file in files.values():
            self._guarded(file.close)

    def _write(self, files: dict[str, _LogFile], item: Any) -> None:
        settings, name, number, kind, request, answer, _ = item
        record = _record(settings.rate, name, number, kind, request, answer)
        if settings.prefix not in files:
            files[settings.prefix] = _LogFile(settings.prefix, self._suffix, self._flags)
        files[settings.prefix].write(record)

    def _guarded(self, call: Any, *arguments: Any) -> None:
        """A log that cannot be written must not end the thread, nor fill the other log."""
        try:
            call(*arguments)
        except Exception as error:
            if time.monotonic() - self._warned > 60 or not self._warned:
                self._warned = time.monotonic()
                log.error("Requests are not logged: %s", error)


class _LogFile:
    """The file that is being written, and those before it.

    After a failure nothing is tried for a while: each try would begin a file, and push out an old
    one that is whole.
    """

    def __init__(self, prefix: str, suffix: str, flags: Flags) -> None:
        self._prefix = prefix
        self._suffix = suffix
        self._max_bytes = flags.request_log_max_bytes
        self._max_files = max(1, flags.request_log_max_files)
        self._writer: Any = None
        self._path = ""
        self._rests_until = 0.0
        self._records = self._bytes = self._made = 0

    def write(self, record: bytes) -> None:
        if time.monotonic() < self._rests_until:
            return
        with self._giving_up():
            if self._writer is None:
                self._open()
            self._writer.write(record)
            self._records += 1
            self._bytes += len(record) + 16
            if self._records >= MAX_RECORDS or self._bytes >= self._max_bytes:
                self.close()

    def flush(self) -> None:
        if self._writer is not None:
            with self._giving_up():
                self._writer.flush()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._path = ""

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """If it fails, the file is closed, without the record in whose midst it ends."""
        try:
            yield
        except Exception:
            self._rests_until = time.monotonic() + _REST_SECONDS
            writer, self._writer = self._writer, None
            with contextlib.suppress(Exception):
                if writer is not None:
                    writer.close()
            with contextlib.suppress(OSError):
                _cut_to_whole_records(self._path)
            self._path = ""
            raise

    def _open(self) -> None:
        import tensorflow as tf

        _make_private(os.path.dirname(self._prefix))
        self._delete_oldest()
        self._made += 1
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        parts = (self._prefix, self._suffix, stamp, str(os.getpid()), f"{self._made:06d}")
        self._path = "-".join(filter(None, parts)) + ".tfrecord"
        self._records = self._bytes = 0
        # Requests are nobody else's business: TensorFlow would make a file that all can read.
        os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        self._writer = tf.io.TFRecordWriter(self._path)

    def _delete_oldest(self) -> None:
        """Of this worker's files, those that are one too many."""
        folder, start = os.path.split("-".join(filter(None, (self._prefix, self._suffix))))
        pattern = re.compile(re.escape(start) + r"-\d{8}-\d{6}-\d+-\d{6}\.tfrecord")
        names = sorted(
            (os.stat(os.path.join(folder, name)).st_mtime_ns, name)
            for name in os.listdir(folder)
            if pattern.fullmatch(name)
        )
        for _, name in names[: max(0, len(names) - self._max_files + 1)]:
            os.unlink(os.path.join(folder, name))


def _cut_to_whole_records(path: str) -> None:
    """Without a record that is there in part; and without the file, if it has no other."""
    whole, size = 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while len(head := file.read(8)) == 8:
            end = whole + 16 + int.from_bytes(head, "little")  # a length and two checksums
            if end > size:
                break
            whole = end
            file.seek(whole)
    if whole:
        os.truncate(path, whole)
    else:
        os.unlink(path)


def _make_private(folder: str) -> None:
    """The directories that are missing, for this user only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):  # another worker was quicker
            os.mkdir(folder, 0o700)


def _filled(
    message: Any, field: str, version: LoggedVersion, plan: LoggedPlan, arrays: Sequence[Any]
) -> Any:
    import tensorflow as tf

    message.model_spec.name = version.name
    message.model_spec.signature_name = plan.signature.name
    for slot, array in zip(getattr(plan, field), arrays, strict=True):
        getattr(message, field)[slot.alias].CopyFrom(tf.make_tensor_proto(array))
    return message


def _record(rate: float, name: str, number: int, kind: str, request: Any, answer: Any) -> bytes:
    from tensorflow_serving.apis import prediction_log_pb2

    made = prediction_log_pb2.PredictionLog()
    part = getattr(made, kind)
    for field, value in (("request", request), ("response", answer)):
        value = value() if callable(value) else value
        if isinstance(value, bytes):
            getattr(part, field).MergeFromString(value)
        else:
            getattr(part, field).CopyFrom(value)
    made.log_metadata.model_spec.name = name
    made.log_metadata.model_spec.version.value = number
    made.log_metadata.sampling_config.sampling_rate = rate
    made.log_metadata.timestamp_secs = int(time.time())
    return made.SerializeToString()
