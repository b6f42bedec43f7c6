"""The quick way of a REST request: from its bytes to its prediction, and back, without ASGI.

It is for the usual request and no other: a `:predict` that came whole in one read, over a
connection that nothing else is going on in. Everything else goes uvicorn's way, as does a request
whose body is not there yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from estimand.serving.rest.predict import error_body
from estimand.serving.status import StatusError

_LARGE = 65_536  # bytes; to copy them would cost more than a second write
# What asks for more than the quick way can do.
_OTHER_WAY = frozenset((b"content-encoding", b"origin", b"upgrade"))


class _NoEvent:
    def set(self) -> None:
        pass


class Exchange:
    """One request and its answer. The protocol has it in the place of uvicorn's cycle."""

    __slots__ = ("_protocol", "disconnected", "keep_alive", "response_complete")
    more_body = False
    message_event = _NoEvent()

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self.keep_alive = True
        self.response_complete = False
        self.disconnected = False

    @property
    def gone(self) -> bool:
        closing: bool = self._protocol.transport.is_closing()
        return closing

    @property
    def client(self) -> Any:
        return self._protocol

    def succeed(self, body: bytes) -> None:
        self._send(200, body)

    def fail(self, error: StatusError) -> None:
        self._send(error.http, error_body(error.text), retry_after(error))

    def _send(self, http: int, body: bytes, more: bytes = b"") -> None:
        protocol = self._protocol
        self.response_complete = True
        if protocol.transport.is_closing():
            return
        end = b"%d%b\r\n\r\n" if self.keep_alive else b"%d%b\r\nconnection: close\r\n\r\n"
        head = protocol.quick.head(http, protocol.server_state.default_headers) + end % (
            len(body),
            more,
        )
        if len(body) < _LARGE:
            protocol.transport.write_now(head + body)
        else:
            protocol.transport.write_now(head)
            protocol.transport.write_now(body)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.is_answered()


def retry_after(error: StatusError) -> bytes:
    """A header, after those before it: whole seconds are all that HTTP knows."""
    if error.retry_after is None:
        return b""
    return b"\r\nretry-after: %d" % math.ceil(error.retry_after)


class QuickWay:
    """What the connections of a server share. `predict` is a RestPredict.

    `allow` says whether who sends such headers may ask; without one, all may.
    """

    def __init__(self, predict: Any, allow: Callable[[Any], bool] | None = None) -> None:
        self._allow = allow
        self.start = predict.start
        self.most_bytes: int = predict.most_bytes
        self._route = predict.route
        self._defaults: Any = None
        self._heads: dict[int, bytes] = {}

    def route(self, protocol: Any) -> Any:
        """Where the request goes whose headers are complete; None if not this way."""
        cycle, parser = protocol.cycle, protocol.parser
        if (
            (cycle is not None and not cycle.response_complete)
            or protocol.expect_100_continue
            or protocol.flow.write_paused
            or parser.get_method() != b"POST"
            or not parser.should_keep_alive()
            or parser.get_http_version() != "1.1"
        ):
            return None
        for name, _ in protocol.headers:
            if name in _OTHER_WAY:
                return None
        if self._allow is not None and not self._allow(protocol.headers):
            return None  # the usual way refuses it
        return self._route(protocol.url)

    def head(self, http: int, defaults: Any) -> bytes:
        """All headers up to the length. The default ones change once a second: the date."""
        if defaults is not self._defaults:
            self._defaults = defaults
            self._heads.clear()
        found = self._heads.get(http)
        if found is None:
            lines = b"".join(b"%b: %b\r\n" % pair for pair in defaults)
            found = STATUS_LINE[http] + lines
            found += b"content-type: application/json\r\ncontent-length: "
            self._heads[http] = found
        return found
