"""The writing side of a connection: frames in order, within the windows that the peer opens."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from estimand.serving.lean import frames
from estimand.serving.lean.frames import DATA, END_HEADERS, END_STREAM, HEADERS, frame
from estimand.serving.lean.headers import HEAD, HEAD_GZIP, OK_TRAILERS, SMALLER_TABLE
from estimand.serving.lean.messages import PREFIX_SIZE, prefixed
from estimand.serving.lean.streams import Stream

_WRITTEN_AT_A_TIME = 256 * 1024
_OUR_LARGEST_FRAME = 65_536  # larger ones would keep small answers waiting

# A whole small answer: headers, the start of the data, then the message itself and the trailers.
_HEADERS_START = frames.pack_head(len(HEAD) << 8 | HEADERS, END_HEADERS, 0)[:5]
_TRAILERS_START = frames.pack_head(len(OK_TRAILERS) << 8 | HEADERS, END_HEADERS | END_STREAM, 0)[:5]
_pack_start = struct.Struct(f">5sI{len(HEAD)}sIBIBI").pack
_pack_trailers = struct.Struct(f">5sI{len(OK_TRAILERS)}s").pack


class Sender:
    """What is to be sent. `done` is told of each stream whose last frame is on its way."""

    __slots__ = (
        "_done",
        "_flush_is_due",
        "_loop",
        "_out",
        "_ready",
        "first_window",
        "largest_frame",
        "paused",
        "sends",
        "table_got_smaller",
        "transport",
        "unsent",
        "window",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Callable[[Stream], None]) -> None:
        self._loop = loop
        self._done = done
        self.transport: Any = None
        self.window = frames.FIRST_WINDOW
        self.first_window = frames.FIRST_WINDOW
        self.largest_frame = frames.MAX_FRAME
        self.paused = False  # the peer does not read
        self.table_got_smaller = False
        self.unsent = 0  # bytes that wait for windows
        self.sends = 0  # frames of answers
        self._ready: deque[Stream] = deque()
        self._out: list[bytes | memoryview] = []
        self._flush_is_due = False

    # ------------------------------------------------------------ bytes

    def put(self, data: bytes) -> None:
        """Sent with everything else of this turn of the event loop."""
        self._out.append(data)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._flush_is_due = False
        out = self._out
        if out:
            self._out = []
            if self.transport.is_closing():
                return
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    # ------------------------------------------------------------ answers

    def answer(self, stream: Stream, message: bytes, gzip: bool) -> None:
        """A unary call's answer, whole."""
        size = len(message) + PREFIX_SIZE
        if (
            size > self.window
            or size > stream.window_out
            or size > self.largest_frame
            or gzip
            or self._ready
            or self.paused
            or self.table_got_smaller
            or not stream.ended
        ):
            self.message(stream, prefixed(message, gzip), gzip)
            self.end(stream, OK_TRAILERS)
            return
        self.window -= size
        self.sends += 1
        number = stream.id
        start = _pack_start(
            _HEADERS_START, number, HEAD, size << 8, 0, number, 0, size - PREFIX_SIZE
        )
        self._out.append(start + message + _pack_trailers(_TRAILERS_START, number, OK_TRAILERS))
        if not self._flush_is_due:
            self._flush_soon()
        self._done(stream)

    def message(self, stream: Stream, data: bytes, gzip: bool = False) -> None:
        """One message with its prefix. The first one brings the headers."""
        if not stream.head_is_sent:
            stream.head_is_sent = True
            self._headers(stream, HEAD_GZIP if gzip else HEAD, END_HEADERS)
        if stream.unsent is None:
            stream.unsent = deque()
        stream.unsent.append(memoryview(data))
        self.unsent += len(data)
        self._make_ready(stream)
        self.pump()

    def end(self, stream: Stream, trailers: bytes) -> None:
        """The status, after all messages. Without headers sent, `trailers` has them too."""
        stream.trailers = trailers
        if not stream.unsent:
            self._finish(stream)

    def opened(self, stream: Stream) -> None:
        """The stream's window has grown."""
        if stream.unsent:
            self._make_ready(stream)
            self.pump()

    def drop(self, stream: Stream) -> None:
        """Its answer is not wanted any more."""
        if stream.unsent:
            self.unsent -= sum(map(len, stream.unsent))
            stream.unsent = None

    def pump(self) -> None:
        """Send what the windows allow: a frame of each stream in turn."""
        gathered = 0
        ready = self._ready
        while ready and self.window > 0 and not self.paused:
            stream = ready.popleft()
            stream.is_ready = False
            if not stream.unsent or stream.gone:
                continue
            gathered += self._send_frame(stream)
            if not stream.unsent:
                if stream.trailers is not None:
                    self._finish(stream)
            else:
                self._make_ready(stream)
            if gathered >= _WRITTEN_AT_A_TIME:
                gathered = 0
                self.flush()  # the transport may pause us
        if gathered:
            self._flush_soon()

    def _send_frame(self, stream: Stream) -> int:
        unsent = stream.unsent
        assert unsent
        chunk = unsent[0]
        most = min(self.window, stream.window_out, self.largest_frame, _OUR_LARGEST_FRAME)
        size = min(len(chunk), most)
        self._out.append(frames.pack_head(size << 8 | DATA, 0, stream.id))
        if size == len(chunk):
            self._out.append(chunk)
            unsent.popleft()
        else:
            self._out.append(chunk[:size])
            unsent[0] = chunk[size:]
        self.window -= size
        self.sends += 1
        self.unsent -= size
        stream.window_out -= size
        stream.touched = -1.0  # now; the next tick writes the time
        return size

    def _make_ready(self, stream: Stream) -> None:
        if not stream.is_ready and stream.window_out > 0:
            stream.is_ready = True
            self._ready.append(stream)

    def _finish(self, stream: Stream) -> None:
        assert stream.trailers is not None
        self._headers(stream, stream.trailers, END_HEADERS | END_STREAM)
        if not stream.ended:  # it need not send the rest
            self.put(frames.reset(stream.id, frames.Code.NO_ERROR))
        self._done(stream)

    def _headers(self, stream: Stream, block: bytes, flags: int) -> None:
        self.sends += 1
        if self.table_got_smaller:
            self.table_got_smaller = False
            block = SMALLER_TABLE + block
        self.put(frame(HEADERS, flags, stream.id, block))
