"""How an answer begins: the status line and the headers that all answers have. And a request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus

JSON = b"application/json"
TEXT = b"text/plain"
HTML = b"text/html"

_UPGRADES = (b"upgrade", b"http2-settings")
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


def error_body(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Each before its line's end, as they follow another header.

    >>> lines([(b"allow", b"GET"), (b"vary", b"Origin")])
    b'\\r\\nallow: GET\\r\\nvary: Origin'
    """
    return b"".join([b"\r\n%b: %b" % pair for pair in headers])


class Heads:
    """Up to the length of the body. Only the date changes, with each `tick`."""

    def __init__(self) -> None:
        self.tick()

    def tick(self) -> None:
        self._date = formatdate(time.time(), usegmt=True).encode()
        self._made: dict[tuple[int, bytes], bytes] = {}

    def head(self, http: int, kind: bytes) -> bytes:
        made = self._made.get((http, kind))
        if made is None:
            made = b"HTTP/1.1 %d %b\r\ndate: %b\r\ncontent-type: %b\r\ncontent-length: " % (
                http,
                _REASONS.get(http, b""),
                self._date,
                kind,
            )
            self._made[http, kind] = made
        return made


def without_upgrade(
    method: bytes, url: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """The head of a request, without its wish for another protocol. Names are in lower case.

    >>> without_upgrade(b"GET", b"/", b"1.1", [(b"upgrade", b"h2c"), (b"connection", b"a,Upgrade")])
    b'GET / HTTP/1.1\\r\\nconnection: a\\r\\n\\r\\n'
    """
    kept = []
    for name, value in headers:
        if name == b"connection":
            words = value.split(b",")
            value = b",".join([word for word in words if word.strip().lower() not in _UPGRADES])
        if name not in _UPGRADES:
            kept.append((name, value))
    return b"%b %b HTTP/%b%b\r\n\r\n" % (method, url, version, lines(kept))
