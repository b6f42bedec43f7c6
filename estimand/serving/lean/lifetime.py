"""When a connection ends: peers that are silent, stuck or old, and our own end."""

from __future__ import annotations

from typing import Any, Protocol

from estimand.serving.lean import frames
from estimand.serving.lean.calls import Calls
from estimand.serving.lean.frames import LARGEST_WINDOW, PING, Code, frame
from estimand.serving.lean.sending import Sender
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Stream
from estimand.serving.status import StatusError

_ARE_YOU_THERE = b"\0there?\0"
_LAST_CALL = b"\0ending\0"
_LAST_CALL_SECONDS = 1.0


class HasLifetime(Protocol):
    """What has a lifetime: a connection."""

    transport: Any
    is_greeted: bool
    last_id: int
    first_id_refused: int

    @property
    def shared(self) -> Shared: ...

    @property
    def sender(self) -> Sender: ...

    @property
    def calls(self) -> Calls: ...

    @property
    def streams(self) -> dict[int, Stream]: ...


class Lifetime:
    """Its times are those of the ticks; 0 stands for: not now."""

    def __init__(self, connection: HasLifetime) -> None:
        now = connection.shared.now
        self._connection = connection
        self._limits = connection.shared.limits
        self._made = now
        self._heard_at = now
        self._asked_at = 0.0
        self._idle_since = now
        self._ending_since = 0.0
        self._closing_since = 0.0
        self.paused_since = 0.0
        self.partial_since = 0.0
        self.heard = True  # since the last tick
        self.is_ending = False  # no new calls; closed after the last one
        self.is_closed = False  # nothing that comes is read

    # ------------------------------------------------------------ ticks

    def tick(self, now: float) -> None:
        limits = self._limits
        connection = self._connection
        if self.heard:
            self.heard = False
            self._heard_at = now
            self._asked_at = 0.0
        if self.is_closed:
            self._closing_since = self._closing_since or now
            if now - self._closing_since > limits.close_seconds:
                connection.transport.abort()
        elif not connection.is_greeted and now - self._made > limits.greeting_seconds:
            connection.transport.abort()
        elif self.partial_since and now - self.partial_since > limits.frame_seconds:
            self.close(Code.ENHANCE_YOUR_CALM, "a frame does not end")
        elif self.paused_since and now - self.paused_since > limits.answer_seconds:
            connection.transport.abort()
        else:
            self._ask(now)
            self._check_streams(now)
            connection.calls.early.tick(now)
            self._check_age(now)

    def _ask(self, now: float) -> None:
        """Whether anybody is there."""
        limits = self._limits
        if self._asked_at:
            if now - self._asked_at > limits.keepalive_timeout_seconds:
                self._connection.transport.abort()
        elif now - self._heard_at > limits.keepalive_seconds:
            self._asked_at = now
            self._connection.sender.put(frame(PING, 0, 0, _ARE_YOU_THERE))

    def _check_streams(self, now: float) -> None:
        limits = self._limits
        connection = self._connection
        for stream in list(connection.streams.values()):
            if stream.touched < 0:
                stream.touched = now
            quiet = now - stream.touched
            if stream.unsent:
                if quiet > limits.answer_seconds:
                    connection.calls.drop(stream)
                    connection.sender.put(frames.reset(stream.id, Code.CANCEL))
            elif stream.ended or (stream.large_request is not None and stream.window_in <= 0):
                continue  # it has sent all, or may send nothing
            elif quiet > limits.request_seconds:
                text = f"Too little of the request came within {limits.request_seconds:g} s."
                connection.calls.fail(stream, StatusError.of("UNAVAILABLE", text))
        if connection.streams:
            self._idle_since = now

    @property
    def unsent_since(self) -> float:
        """When the peer took a part of an answer of which it has not taken all; the oldest."""
        streams = self._connection.streams.values()
        return min([stream.touched for stream in streams if stream.unsent], default=0.0)

    def _check_age(self, now: float) -> None:
        limits = self._limits
        if self.is_ending:
            self._ending_since = self._ending_since or now
            if now - self._ending_since > _LAST_CALL_SECONDS:
                self._refuse_from_now()
            if now - self._ending_since > limits.age_grace_seconds:
                self.close(Code.NO_ERROR, "max_age")
        elif now - self._made > limits.age_seconds:
            self.drain("max_age")
        elif now - self._idle_since > limits.idle_seconds:
            self.drain("max_idle")

    # ------------------------------------------------------------ the end

    def drain(self, why: str = "") -> None:
        """Take calls that are on their way, and no more; close after the last one."""
        if self.is_ending or self.is_closed:
            return
        self.is_ending = True
        connection = self._connection
        connection.sender.put(frames.goaway(LARGEST_WINDOW, Code.NO_ERROR, why))
        # When it is answered, the peer has seen the farewell, and all its calls are here.
        connection.sender.put(frame(PING, 0, 0, _LAST_CALL))
        error = StatusError.of("UNAVAILABLE", "The server is shutting down.")
        connection.calls.end_streaming(error)

    def pong(self, payload: bytes) -> None:
        if payload == _LAST_CALL and self.is_ending:
            self._refuse_from_now()

    def peer_ends(self) -> None:
        self.is_ending = True
        self._refuse_from_now()

    def _refuse_from_now(self) -> None:
        connection = self._connection
        if connection.first_id_refused > connection.last_id + 1:
            connection.first_id_refused = connection.last_id + 1
            connection.sender.put(frames.goaway(connection.last_id, Code.NO_ERROR))
        self.end_if_empty()

    def end_if_empty(self) -> None:
        connection = self._connection
        may_end = connection.first_id_refused <= connection.last_id + 1
        if may_end and not connection.streams and not self.is_closed:
            self.is_closed = True
            connection.sender.flush()
            connection.transport.close()

    def close(self, code: Code, text: str = "") -> None:
        """At once, telling the peer why."""
        if self.is_closed:
            return
        connection = self._connection
        self.is_closed = True
        connection.calls.drop_all()
        connection.sender.put(frames.goaway(connection.last_id, code, text))
        connection.sender.flush()
        transport = connection.transport
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            # What it still sends is passed over: closing now could take the reason from it.
            transport.write_eof()
        except OSError:  # it is gone
            transport.abort()
