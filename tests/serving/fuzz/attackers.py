"""Sends inputs of one kind to a server: `python -m tests.serving.fuzz.attackers KIND ...`.

A process of its own for each kind, so that what it costs to attack is not what others wait for.
Every second it writes how many requests it has made, and what became of them.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import pickle
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hpack

from estimand.serving.lean import frames
from estimand.serving.lean.frames import END_HEADERS, END_STREAM, frame
from estimand.serving.lean.headers import literal
from tests.serving.fuzz.changing import METHODS, changed, corpus_of

SECONDS = 20.0  # within which each request must have its answer, or its end
_AT_ONCE = 32  # calls on one connection
_RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
_REST = ("half_plus_two", "two_inputs", "types", "bytes", "classifier", "none")


class Attacker:
    """Makes requests of one kind; `told` counts what it got."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.random = random.Random(given.seed)
        self.told: Counter[str] = Counter()
        self.made = 0

        self.corpus = corpus_of(given.kind)
        self.cases: list[Any] = []
        if given.cases:
            self.cases = pickle.loads(given.cases.read_bytes()).get(given.kind, [])

    def case(self) -> Any:
        """One that was made to mean something, about half of the time."""
        return self.random.choice(self.cases) if self.cases and self.random.random() < 0.5 else None

    def changed(self) -> bytes:
        return changed(self.corpus, self.random) or b"\0"

    def attack(self) -> None:
        raise NotImplementedError

    def exchange(self, port: int, data: bytes) -> bytes:
        """All that comes back on a connection of its own."""
        answer = b""
        connection = socket.create_connection(("127.0.0.1", port), SECONDS)
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        return answer


class Http1(Attacker):
    def attack(self) -> None:
        answer = self.exchange(self.given.rest_port, self.case() or self.changed()[1:])
        self.told[answer[9:12].decode("latin-1") or "closed"] += 1
        self.made += 1


class Http2(Attacker):
    def attack(self) -> None:
        data = self.changed()
        sent = b"".join(as_frames(data[1:])) if data[0] & 1 else data[1:]
        if data[0] & 2:
            sent = frames.PREFACE + frames.settings({}) + sent
        answer = self.exchange(self.given.port, sent)
        self.told["GOAWAY" if b"\x07\0\0\0\0\0" in answer else "closed"] += 1
        self.made += 1


def as_frames(data: bytes) -> list[bytes]:
    """Each begins with a kind, flags, a stream and a length of two bytes."""
    found = []
    while len(data) >= 5:
        kind, flags, stream, size = struct.unpack(">BBBH", data[:5])
        payload, data = data[5 : 5 + size], data[5 + size :]
        found.append(frame(kind % 11, flags, stream, payload[: frames.MAX_FRAME]))
    return found


class Json(Attacker):
    _connection: http.client.HTTPConnection | None = None

    def attack(self) -> None:
        path, body, headers = self.case() or self._usual()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.given.rest_port, timeout=SECONDS
            )
        try:
            self._connection.request("POST", path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
            self.told[str(answer.status)] += 1
        except (ConnectionError, http.client.HTTPException):
            self.told["closed"] += 1
            self._connection.close()
        self.made += 1

    def _usual(self) -> tuple[str, bytes, dict[str, str]]:
        model = self.random.choice(_REST)
        action = self.random.choice(("predict", "predict", "classify", "regress"))
        return f"/v1/models/{model}:{action}", self.changed()[1:], {}


class Grpc(Attacker):
    """Many calls at once on a connection."""

    _socket: socket.socket | None = None

    def attack(self) -> None:
        if self._socket is None:
            self._connect()
        sent = b""
        for _ in range(_AT_ONCE):
            sent += self._call(*self._choose())
            self._stream += 2
        self._exchange(sent, _AT_ONCE)

    def _choose(self) -> tuple[str, bytes]:
        if case := self.case():
            path, body = case
            return path, body
        data = self.changed()
        return METHODS[data[0] % len(METHODS)], data[1:]

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self.given.port), SECONDS)
        self._socket.sendall(
            frames.PREFACE
            + frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**30})
            + frames.window_update(0, 2**30)
        )
        self._decoder = hpack.Decoder(max_header_list_size=1 << 20)
        self._rest = b""
        self._stream = 1

    def _call(self, path: str, body: bytes) -> bytes:
        headers = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
        block = b"".join(literal(*one) for one in headers)
        message = b"\0" + struct.pack(">I", len(body)) + body
        found = frame(frames.HEADERS, END_HEADERS, self._stream, block)
        pieces = [message[i : i + 16_384] for i in range(0, len(message), 16_384)]
        for piece in pieces[:-1]:
            found += frame(frames.DATA, 0, self._stream, piece)
        return found + frame(frames.DATA, END_STREAM, self._stream, pieces[-1])

    def _exchange(self, sent: bytes, calls: int) -> None:
        assert self._socket is not None
        left = calls
        try:
            self._socket.sendall(sent)
            while left > 0:
                part = self._socket.recv(1 << 18)
                if not part:
                    raise ConnectionResetError
                left -= self._read(part)
        except ConnectionError:
            self.told["closed"] += left
            self._socket.close()
            self._socket = None
        self.made += calls

    def _read(self, part: bytes) -> int:
        """How many answers ended in it."""
        data, ended = self._rest + part, 0
        while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
            kind, flags, payload = data[3], data[4], data[9 : 9 + size]
            if kind == frames.HEADERS:
                found = dict(self._decoder.decode(payload))
                if "grpc-status" in found:
                    self.told[_status(found)] += 1
            if kind == frames.RST_STREAM:
                self.told["reset"] += 1
            ended += kind == frames.RST_STREAM or (kind < 2 and bool(flags & END_STREAM))
            data = data[9 + size :]
        self._rest = data
        return ended


def _status(headers: dict[str, str]) -> str:
    status, text = headers["grpc-status"], headers.get("grpc-message", "")
    if status == "13" and text != "Unable to parse the request.":
        return "ERROR OF OURS"
    return status


class Config(Grpc):
    """Reloads by call: what is served, and something damaged beside it. A few each second."""

    def attack(self) -> None:
        if not hasattr(self, "_served"):
            self._served = self.given.reload.read_bytes()
            self.corpus = [self._served]
        if self._socket is None:
            self._connect()
        body = self._served + self.changed()
        self._exchange(self._call(_RELOAD, body), 1)
        if self._socket is not None:
            self._stream += 2
        time.sleep(0.02)


ATTACKERS: dict[str, type[Attacker]] = {
    "grpc": Grpc,
    "http2": Http2,
    "http1": Http1,
    "json": Json,
    "config": Config,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(ATTACKERS))
    for name in ("port", "rest_port", "seed"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--per_second", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--reload", type=Path)
    parser.add_argument("--cases", type=Path)
    given = parser.parse_args()
    attacker = ATTACKERS[given.kind](given)
    repeat(attacker, given, lambda: write(given.out, attacker))


def repeat(attacker: Attacker, given: argparse.Namespace, tell: Callable[[], None]) -> None:
    started = told = time.monotonic()
    while (now := time.monotonic()) - started < given.seconds:
        ahead = attacker.made / given.per_second - (now - started)
        if ahead > 0:
            time.sleep(min(ahead, 0.5))
        try:
            attacker.attack()
        except ConnectionRefusedError:
            attacker.told["refused"] += 1  # it starts again, or is gone: others notice
            time.sleep(0.1)
        except TimeoutError:
            attacker.told["NO ANSWER"] += 1
        if now - told > 1.0:
            told = now
            tell()
    tell()


def write(out: Path, attacker: Attacker) -> None:
    new = out.with_suffix(".new")
    new.write_text(json.dumps({"made": attacker.made, "told": dict(attacker.told)}))
    os.replace(new, out)


if __name__ == "__main__":
    main()
