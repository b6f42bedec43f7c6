"""Frames that carry no request: settings, windows, pings, resets, farewells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from estimand.serving.lean import frames
from estimand.serving.lean.frames import (
    ACK,
    LARGEST_WINDOW,
    MAX_FRAME,
    PING,
    SETTINGS,
    Code,
    ConnectionFault,
    frame,
    read_u32,
)
from estimand.serving.lean.guards import Guard
from estimand.serving.lean.lifetime import HasLifetime, Lifetime

_SMALL_INCREMENT = 1024
_DEFAULT_TABLE = 4096


class HasControl(HasLifetime, Protocol):
    """A connection, for which its control frames are read."""

    @property
    def guard(self) -> Guard: ...

    @property
    def lifetime(self) -> Lifetime: ...

    def idle_frame(self, cost: int = 1) -> None: ...

    def take_back(self, number: int) -> None: ...

    def refuse(self, number: int, code: Code) -> None: ...


class Control:
    """Reads them for a connection."""

    def __init__(self, connection: HasControl) -> None:
        self._connection = connection
        self._sender = connection.sender
        self._has_settings = False
        self._kinds: dict[int, Callable[[int, int, bytes], None]] = {
            frames.PRIORITY: self._priority,
            frames.RST_STREAM: self._reset,
            SETTINGS: self._settings,
            frames.PUSH_PROMISE: self._push,
            PING: self._ping,
            frames.GOAWAY: self._goaway,
            frames.WINDOW_UPDATE: self._window_update,
        }

    def read(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        read = self._kinds.get(kind)
        if read is None:  # of an extension
            self._connection.idle_frame()
        else:
            read(number, flags, payload)

    @property
    def is_settled(self) -> bool:
        return self._has_settings

    def _priority(self, number: int, flags: int, payload: bytes) -> None:
        self._connection.idle_frame()
        if not number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PRIORITY of no stream")
        if len(payload) != 5:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "bad PRIORITY")

    def _push(self, number: int, flags: int, payload: bytes) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "clients push nothing")

    def _reset(self, number: int, flags: int, payload: bytes) -> None:
        connection = self._connection
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "bad RST_STREAM")
        if not number or number > connection.last_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "RST_STREAM of a stream that is not open")
        connection.idle_frame()
        connection.take_back(number)

    # ------------------------------------------------------------ settings

    def _settings(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & ACK and payload):
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "bad SETTINGS")
        self._connection.idle_frame(1 + len(payload) // 60)
        if flags & ACK:
            return
        self._has_settings = True
        for key, value in frames.iter_settings(payload):
            self._setting(key, value)
        self._sender.put(frame(SETTINGS, ACK, 0))

    def _setting(self, key: int, value: int) -> None:
        sender = self._sender
        if key == frames.SETTINGS_INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, f"a window of {value}")
            grown = value - sender.first_window
            sender.first_window = value
            if grown:
                self._grow(grown)
        elif key == frames.SETTINGS_MAX_FRAME_SIZE:
            if not MAX_FRAME <= value <= frames.LARGEST_FRAME:
                raise ConnectionFault(Code.PROTOCOL_ERROR, f"frames of {value} bytes")
            sender.largest_frame = value
        elif key == frames.SETTINGS_HEADER_TABLE_SIZE:
            sender.table_got_smaller |= value < _DEFAULT_TABLE
        elif key == frames.SETTINGS_ENABLE_PUSH and value > 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}")

    def _grow(self, grown: int) -> None:
        streams = list(self._connection.streams.values())
        self._connection.idle_frame(len(streams) // 16)  # it costs us each of them
        for stream in streams:
            stream.window_out += grown
            if stream.window_out > LARGEST_WINDOW:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window too large")
        for stream in streams:
            self._sender.opened(stream)

    # ------------------------------------------------------------ pings, windows, farewell

    def _ping(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "bad PING")
        self._connection.idle_frame()
        if flags & ACK:
            self._connection.lifetime.pong(payload)
        else:
            self._sender.put(frame(PING, ACK, 0, payload))
            now = self._connection.shared.loop.time()
            self._connection.guard.ping(now, self._sender.sends)

    def _goaway(self, number: int, flags: int, payload: bytes) -> None:
        if number or len(payload) < 8:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "bad GOAWAY")
        self._connection.idle_frame()
        self._connection.lifetime.peer_ends()

    def _window_update(self, number: int, flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "bad WINDOW_UPDATE")
        connection, sender = self._connection, self._sender
        amount = read_u32(payload)[0] & LARGEST_WINDOW
        connection.idle_frame(1 if amount >= _SMALL_INCREMENT else 4)
        if not number:
            if not amount:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the window grows by nothing")
            sender.window += amount
            if sender.window > LARGEST_WINDOW:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, f"the window grows by {amount}")
            sender.pump()
            return
        if number > connection.last_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a window of a stream that is not open")
        stream = connection.streams.get(number)
        if stream is not None:
            stream.window_out += amount
            if not amount:
                connection.refuse(number, Code.PROTOCOL_ERROR)
            elif stream.window_out > LARGEST_WINDOW:
                connection.refuse(number, Code.FLOW_CONTROL_ERROR)
            else:
                sender.opened(stream)
