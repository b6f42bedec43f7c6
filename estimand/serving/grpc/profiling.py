"""`tensorflow.ProfilerService` on the gRPC port: TensorBoard captures a profile of this process.

TensorFlow's own service writes where its client says. This one writes nothing a client can name:
the profile goes back in the answer, and the client, which knows that way too, puts it where it
wants it. One profile is taken at a time, and what it may cost is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pool

from estimand.core.files import described
from estimand.core.files.described import BOOL, BYTES, MESSAGE, STRING, UINT32, UINT64, Field
from estimand.serving.grpc.prediction import parsed
from estimand.serving.status import StatusError, invalid

SERVICE = "tensorflow.ProfilerService"
TOOL = "xplane.pb"  # how clients name the profile
LONGEST_SECONDS = 60.0
_MOST_BYTES = 256 * 2**20  # that the process may grow by; then the profile ends before its time
_SECONDS_BETWEEN_LOOKS = 0.05
_SMALL = 2**20  # a profile of more bytes has events; smaller ones are looked through
_DEFAULT_LEVELS = (2, 1, 0)  # host, device, Python

Method = Callable[[bytes, float | None], Awaitable[tuple[bytes, str]]]


class _Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = asyncio.Event()


class Profiler:
    """The service's methods."""

    def __init__(self) -> None:
        self._session: _Session | None = None
        self._task: asyncio.Task[bytes] | None = None

    def methods(self) -> dict[str, Method]:
        return {"Profile": self.profile, "Monitor": self.monitor, "Terminate": self.terminate}

    async def profile(self, body: bytes, deadline: float | None) -> tuple[bytes, str]:
        request = parsed(_kind("ProfileRequest"), body)
        seconds = (request.opts.duration_ms or request.duration_ms) / 1000
        if seconds > LONGEST_SECONDS:
            raise invalid(
                f"duration_ms={seconds * 1000:.0f}: a profile of this server takes at most "
                f"{LONGEST_SECONDS * 1000:.0f} ms."
            )
        if self._session is not None:
            raise StatusError.of("ALREADY_EXISTS", "Another profiler session is active.")
        session = self._session = _Session(request.session_id)
        self._task = asyncio.create_task(self._take(session, seconds, _options(request.opts)))
        try:
            # A client that goes away ends its profile, but not in the middle of TensorFlow's call.
            trace = await asyncio.shield(self._task)
        finally:
            session.ended.set()
        answer = _kind("ProfileResponse")(empty_trace=_is_empty(trace))
        if request.emit_xspace:
            answer.xspace = trace
        else:
            answer.tool_data.add(name=TOOL, data=trace)
        return answer.SerializeToString(), ""

    async def monitor(self, body: bytes, deadline: float | None) -> tuple[bytes, str]:
        """TensorFlow's own service has none either, except on TPUs."""
        raise StatusError.of("UNIMPLEMENTED", "unimplemented.")

    async def terminate(self, body: bytes, deadline: float | None) -> tuple[bytes, str]:
        name = parsed(_kind("TerminateRequest"), body).session_id
        if self._session is not None and self._session.name == name:
            self._session.ended.set()
        return b"", ""

    async def _take(self, session: _Session, seconds: float, options: Any) -> bytes:
        try:
            with tempfile.TemporaryDirectory(prefix="estimand-profile-") as folder:
                await asyncio.to_thread(tf.profiler.experimental.start, folder, options)
                try:
                    await _until_over(session.ended, seconds)
                finally:
                    await asyncio.to_thread(tf.profiler.experimental.stop)
                return await asyncio.to_thread(_written, Path(folder))
        finally:
            self._session = None


async def _until_over(ended: asyncio.Event, seconds: float) -> None:
    """The time is over, somebody ended it, or the events take too much memory."""
    loop = asyncio.get_running_loop()
    over, most = loop.time() + seconds, _resident_bytes() + _MOST_BYTES
    while not ended.is_set() and (left := over - loop.time()) > 0:
        if _resident_bytes() > most:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), min(left, _SECONDS_BETWEEN_LOOKS))


def _resident_bytes() -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:  # not Linux
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _written(folder: Path) -> bytes:
    files = sorted(folder.rglob(f"*.{TOOL}"))
    return files[0].read_bytes() if files else b""


def _is_empty(profile: bytes) -> bool:
    if len(profile) > _SMALL:
        return False
    space = _kind("XSpace").FromString(profile)
    return not any(line.events for plane in space.planes for line in plane.lines)


def _options(given: Any) -> Any:
    levels = (given.host_tracer_level, given.device_tracer_level, given.python_tracer_level)
    host, device, python = levels if given.version else _DEFAULT_LEVELS  # 0: nothing was set
    return tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=host, device_tracer_level=device, python_tracer_level=python
    )


# ---------------------------------------------------------------- messages
# TensorFlow's Python package has no classes for them. Of each, the fields that are looked at.

_PACKAGE = "estimand.serving.grpc.profiling"


def _many(name: str, message: str) -> Field:
    return Field(name, MESSAGE, is_repeated=True, message=f".{_PACKAGE}.{message}")


_MESSAGES = {
    "ProfileOptions": {
        2: Field("host_tracer_level", UINT32),
        3: Field("device_tracer_level", UINT32),
        4: Field("python_tracer_level", UINT32),
        5: Field("version", UINT32),
        9: Field("duration_ms", UINT64),
    },
    "ProfileRequest": {
        1: Field("duration_ms", UINT64),
        4: Field("opts", MESSAGE, message=f".{_PACKAGE}.ProfileOptions"),
        6: Field("session_id", STRING),
        9: Field("emit_xspace", BOOL),
    },
    "ToolData": {1: Field("name", STRING), 2: Field("data", BYTES)},
    "ProfileResponse": {
        6: _many("tool_data", "ToolData"),
        7: Field("empty_trace", BOOL),
        8: Field("xspace", BYTES),  # a message, which is bytes on the wire
    },
    "TerminateRequest": {1: Field("session_id", STRING)},
    "XSpace": {1: _many("planes", "XPlane")},
    "XPlane": {3: _many("lines", "XLine")},
    "XLine": {4: _many("events", "XEvent")},
    "XEvent": {},
}


@functools.cache
def _kind(name: str) -> Any:
    return described.message_class(_pool(), f"{_PACKAGE}.{name}")


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    return described.pool(_PACKAGE, _MESSAGES)
