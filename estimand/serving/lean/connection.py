"""A connection: reads frames, keeps HTTP/2's rules, and gives whole requests to `Calls`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from estimand.serving.lean import frames
from estimand.serving.lean.calls import Calls
from estimand.serving.lean.control import Control
from estimand.serving.lean.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    HAS_PRIORITY,
    HEAD_SIZE,
    HEADERS,
    LARGEST_WINDOW,
    MAX_FRAME,
    PADDED,
    Code,
    ConnectionFault,
    StreamFault,
    read_head,
    read_u32,
)
from estimand.serving.lean.guards import Guard
from estimand.serving.lean.headers import HeaderReader
from estimand.serving.lean.lifetime import Lifetime
from estimand.serving.lean.messages import PREFIX_SIZE
from estimand.serving.lean.sending import Sender
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Stream

log = logging.getLogger("estimand.serving")

_SMALL_DATA = 256
_REQUESTS_AT_A_TIME = 128  # of one connection; then it is the turn of others
_WRITE_BUFFER = 256 * 1024


class Connection(asyncio.Protocol):
    def __init__(self, shared: Shared, address: Any = None) -> None:
        """`address` is that of a peer that was let in already."""
        self._address = address
        limits = shared.limits
        self.shared = shared
        self.sender = Sender(shared.loop, self._stream_is_done)
        self.calls = Calls(shared, self.sender)
        self.streams = self.calls.streams
        self.guard = Guard(limits)
        self.lifetime = Lifetime(self)
        self.transport: Any = None
        self.is_greeted = False
        self.last_id = 0
        self.first_id_refused = LARGEST_WINDOW
        self._control = Control(self)
        self._headers = HeaderReader(shared.judge, limits.header_bytes, self.idle_frame)
        self._known_blocks = self._headers.known
        self._limits = limits
        self._rest = b""  # the start of a frame
        self._put_off: tuple[bytes, int] | None = None  # what waits for our turn, from where
        self._block: tuple[int, int, bytearray] | None = None  # headers: stream, flags, so far
        self._window = limits.window
        self._low_window = limits.window // 2

    # ------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: Any) -> None:
        self.transport = self.sender.transport = transport
        secure = transport.get_extra_info("ssl_object")
        if self._address is None:
            self._address = self.shared.connection_limits.admit(
                transport.get_extra_info("peername")
            )
        is_other = secure is not None and secure.selected_alpn_protocol() != "h2"
        if self._address is None or is_other or self.shared.is_ending:
            self.lifetime.is_closed = True
            transport.abort()
            return
        self.shared.connections.add(self)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        first = frames.settings(
            {
                frames.SETTINGS_MAX_CONCURRENT_STREAMS: self._limits.streams,
                frames.SETTINGS_MAX_HEADER_LIST_SIZE: self._limits.header_bytes,
            }
        )
        self.sender.put(first + frames.window_update(0, self._limits.window - FIRST_WINDOW))

    def connection_lost(self, error: Exception | None) -> None:
        self.shared.connections.discard(self)
        self.shared.connection_limits.release(self._address)
        self.lifetime.is_closed = True
        self.calls.drop_all()

    def pause_writing(self) -> None:
        # Whoever does not take answers need not ask more.
        self.sender.paused = True
        self.lifetime.paused_since = self.shared.now
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.sender.paused = False
        self.lifetime.paused_since = 0.0
        self.transport.resume_reading()
        self.sender.pump()

    def data_received(self, data: bytes) -> None:
        lifetime = self.lifetime
        lifetime.heard = True
        if lifetime.is_closed:
            return
        if self._put_off is not None:
            before, position = self._put_off
            data = before[position:] + data
        elif self._rest:
            data = self._rest + data
        self._read_guarded(data, 0)

    def _read_guarded(self, data: bytes, position: int) -> None:
        lifetime = self.lifetime
        self._put_off = None
        try:
            self._read(data, position)
        except ConnectionFault as fault:
            log.info("a gRPC connection ends: %s", fault)
            lifetime.close(fault.code, fault.text)
        except Exception:
            log.exception("a gRPC connection ends")
            lifetime.close(Code.INTERNAL_ERROR)

    # ------------------------------------------------------------ frames

    def _read(self, data: bytes, position: int) -> None:
        end = len(data)
        if not self.is_greeted:
            position = self._greet(data)
            if not self.is_greeted:
                self._rest = data  # a part of the greeting, which has its own time
                return
        requests = 0
        while end - position >= HEAD_SIZE:
            size, flags, number = read_head(data, position)
            kind = size & 0xFF
            size >>= 8
            if size > MAX_FRAME:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            start = position + HEAD_SIZE
            stop = start + size
            if stop > end:
                break
            position = stop
            number &= LARGEST_WINDOW
            if kind == CONTINUATION:
                self._on_continuation(number, flags, data[start:stop])
            elif self._block is not None:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "headers are interrupted")
            elif kind == DATA:
                self._on_data(number, flags, data[start:stop], size)
            elif kind == HEADERS:
                requests += 1
                if requests > _REQUESTS_AT_A_TIME:
                    self._wait_for_turn(data, start - HEAD_SIZE)
                    return
                whole = self._on_usual_request(number, flags, data, start, stop)
                if whole:
                    position = whole
                else:
                    self._on_headers(number, flags, data[start:stop])
            else:
                self._control.read(kind, number, flags, data[start:stop])
                if self.lifetime.is_closed:
                    return
        self._keep(data, position, end)

    def _wait_for_turn(self, data: bytes, position: int) -> None:
        """Others were not heard while these were started."""
        self._put_off = (data, position)
        self.lifetime.partial_since = 0.0
        self.transport.pause_reading()
        self.shared.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._put_off is not None and not self.lifetime.is_closed:
            self._read_guarded(*self._put_off)
        is_read = self._put_off is None or self.lifetime.is_closed
        if is_read and not self.sender.paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _greet(self, data: bytes) -> int:
        """Where the frames begin."""
        preface = frames.PREFACE
        if not preface.startswith(data[: len(preface)]):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "no HTTP/2 preface")
        if len(data) < len(preface):
            return 0
        self.is_greeted = True
        return len(preface)

    def _keep(self, data: bytes, position: int, end: int) -> None:
        """What is unfinished, and since when."""
        lifetime = self.lifetime
        if position < end:
            self._rest = data[position:] if position else data
            if (position and self._block is None) or not lifetime.partial_since:
                lifetime.partial_since = self.shared.now
        else:
            self._rest = b""
            if self._block is None:
                lifetime.partial_since = 0.0
            elif not lifetime.partial_since:
                lifetime.partial_since = self.shared.now

    def idle_frame(self, cost: int = 1) -> None:
        """A frame that brings no request."""
        self.guard.idle_frame(self.shared.now, self.last_id >> 1, self.sender.sends, cost)

    def _on_usual_request(self, number: int, flags: int, data: bytes, start: int, stop: int) -> int:
        """Known headers with all of a small message behind them: most requests are that.

        Says where it ends; 0 if it is anything else, or needs anything that others do not. Then
        nothing was done.
        """
        begin = stop + HEAD_SIZE
        if flags & ~HAS_PRIORITY != END_HEADERS or len(data) < begin + PREFIX_SIZE:
            return 0
        head = self._known_blocks.get(data[start + 5 if flags & HAS_PRIORITY else start : stop])
        size, data_flags, data_number = read_head(data, stop)
        end = begin + (size >> 8)
        if (
            head is None
            or size & 0xFF != DATA
            or size >> 8 > MAX_FRAME
            or data_flags != END_STREAM
            or data_number != number
            or end > len(data)
            or data[begin]  # compressed
            or read_u32(data, begin + 1)[0] != end - begin - PREFIX_SIZE
            or number <= self.last_id
            or number >= self.first_id_refused
            or not number & 1
            or self._window - (size >> 8) < self._low_window
            or len(self.streams) >= self._limits.streams
            or not self.calls.takes_at_once(head, size >> 8)
        ):
            return 0
        self._window -= size >> 8
        self.last_id = number
        stream = Stream(number, head, self.sender.first_window, self.shared.now)
        stream.ended = True
        self.calls.start(stream, data[begin + PREFIX_SIZE : end])
        return end

    # ------------------------------------------------------------ headers

    def _on_headers(self, number: int, flags: int, block: bytes) -> None:
        if flags & PADDED:
            block = frames.unpadded(block)
        if flags & HAS_PRIORITY:
            if len(block) < 5:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "headers without their priority")
            block = block[5:]
        if flags & END_HEADERS:
            self._on_block(number, flags, block)
        else:
            self._block = (number, flags, bytearray(block))
            self.idle_frame()

    def _on_continuation(self, number: int, flags: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a continuation of nothing")
        first_flags, block = self._block[1:]
        block += payload
        if len(block) > self._limits.block_bytes:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "headers without end")
        self.idle_frame()
        if flags & END_HEADERS:
            self._block = None
            self._on_block(number, first_flags, bytes(block))

    def _on_block(self, number: int, flags: int, block: bytes) -> None:
        if number <= self.last_id or not number & 1:
            self._on_late_block(number, flags, block)
            return
        if not self._control.is_settled:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self.last_id = number
        if number >= self.first_id_refused:
            self._headers.decode(block)  # the next blocks build on it
            self.idle_frame()
            return
        try:
            head = self._known_blocks.get(block) or self._headers.read(block)
        except StreamFault as fault:
            self.refuse(number, fault.code)
            return
        if len(self.streams) >= self._limits.streams:
            # Maybe it had not seen the limit yet. More than a stream earns.
            self.idle_frame(self._limits.idle_frames_per_stream + 2)
            self.sender.put(frames.reset(number, Code.REFUSED_STREAM))
            return
        stream = Stream(number, head, self.sender.first_window, self.shared.now)
        stream.ended = bool(flags & END_STREAM)
        self.calls.open(stream)

    def _on_late_block(self, number: int, flags: int, block: bytes) -> None:
        """Trailers of a request, or of one that is over."""
        if not number & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, f"a client has no stream {number}")
        self.idle_frame()
        self._headers.decode(block)
        stream = self.streams.get(number)
        if stream is None:
            return
        if stream.ended or not flags & END_STREAM:
            self.refuse(number, Code.PROTOCOL_ERROR)
        else:
            stream.ended = True
            self.calls.data(stream, b"", True)

    # ------------------------------------------------------------ data

    def _on_data(self, number: int, flags: int, payload: bytes, size: int) -> None:
        # The connection's window is given back at once: it is a stream's own window that holds
        # a sender back.
        self._window -= size
        if self._window < self._low_window:
            if self._window < 0:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more data than the window allows")
            self.sender.put(frames.window_update(0, self._limits.window - self._window))
            self._window = self._limits.window
        stream = self.streams.get(number)
        if stream is None or stream.ended:
            self._on_unwanted_data(number, stream)
            return
        stream.window_in -= size
        if stream.window_in < 0:
            self.refuse(number, Code.FLOW_CONTROL_ERROR)
            return
        if flags & PADDED:
            payload = frames.unpadded(payload)
            self.sender.put(frames.window_update(number, size - len(payload)))
            stream.window_in += size - len(payload)
            self.idle_frame()
        if flags & END_STREAM:
            stream.ended = True
            self.calls.data(stream, payload, True)
        else:
            if len(payload) < _SMALL_DATA:
                self.idle_frame()
            self.calls.data(stream, payload, False)

    def _on_unwanted_data(self, number: int, stream: Stream | None) -> None:
        """Of a call that we have answered or ended, maybe before its client knew."""
        if number > self.last_id or not number & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "data of a stream that is not open")
        if stream is not None:
            self.refuse(number, Code.STREAM_CLOSED)
        self.idle_frame()

    # ------------------------------------------------------------ ends of streams

    def refuse(self, number: int, code: Code) -> None:
        """End a stream that cannot be answered."""
        self.take_back(number)
        self.sender.put(frames.reset(number, code))

    def take_back(self, number: int) -> None:
        """The peer has given up a call, or has spoilt it. Doing so a lot is an attack."""
        stream = self.streams.get(number)
        if stream is not None:
            self.calls.drop(stream)
            if self.lifetime.is_ending:
                self.lifetime.end_if_empty()
        self.guard.reset(self.shared.now, self.sender.sends)

    def _stream_is_done(self, stream: Stream) -> None:
        self.calls.forget(stream)
        if self.lifetime.is_ending:
            self.lifetime.end_if_empty()
