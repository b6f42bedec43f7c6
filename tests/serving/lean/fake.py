"""Handlers that need no model, a server of either kind that runs them in a thread, a raw client."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import hpack

from estimand.serving.grpc.face import grpcio_handlers
from estimand.serving.lean import frames
from estimand.serving.lean.frames import END_HEADERS, END_STREAM, frame, read_head, read_u32
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.listener import LeanServer
from estimand.serving.lean.streams import Streaming, Unary
from estimand.serving.status import StatusError

GOOD = {":status": "200", "content-type": "application/grpc", "grpc-status": "0"}


@dataclass
class Seen:
    """What happened to the calls of `Wait`."""

    started: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    cancelled: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    deadlines: list[float | None] = field(default_factory=list)


def table(seen: Seen) -> dict[str, Callable[..., Awaitable[bytes]]]:
    async def echo(body, deadline, metadata) -> bytes:
        return body

    async def repeat(body, deadline, metadata) -> bytes:
        size, _, what = body.partition(b" ")
        return what * int(size)

    async def fail(body, deadline, metadata) -> bytes:
        code, _, text = body.decode().partition(" ")
        raise StatusError.of(code, text)

    async def key(body, deadline, metadata) -> bytes:
        return repr([value for name, value in metadata() if name == body.decode()]).encode()

    async def wait(body, deadline, metadata) -> bytes:
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        seen.deadlines.append(left)
        seen.started.release()
        try:
            await asyncio.sleep(float(body))
        except asyncio.CancelledError:
            seen.cancelled.release()
            raise
        return b"done"

    methods = {"Echo": echo, "Repeat": repeat, "Fail": fail, "Key": key, "Wait": wait}
    return {f"/fake.Fake/{name}": method for name, method in methods.items()}


@dataclass
class Running:
    port: int
    seen: Seen
    server: Any
    loop: asyncio.AbstractEventLoop

    def run(self, coroutine: Any, seconds: float = 30.0) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def stop(self, grace: float) -> Any:
        return asyncio.run_coroutine_threadsafe(self.server.stop(grace), self.loop)


@contextlib.contextmanager
def lean(
    limits: Limits | None = None, tick: float = 0.02, more: Any = None, **listening: Any
) -> Iterator[Running]:
    seen = Seen()

    async def start() -> tuple[int, LeanServer]:
        paths: dict[str, Unary | Streaming] = {
            path: Unary(answer) for path, answer in table(seen).items()
        }
        server = LeanServer(paths | (more() if more else {}), limits, tick_seconds=tick)
        return await server.listen("127.0.0.1", 0, **listening), server

    with _in_a_thread(start) as (loop, (port, server)):
        yield Running(port, seen, server, loop)


@contextlib.contextmanager
def grpcio(limits: Limits | None = None) -> Iterator[Running]:
    seen = Seen()
    limits = limits or Limits()

    async def start() -> tuple[int, Any]:
        options = [("grpc.max_receive_message_length", limits.message_bytes)]
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers(grpcio_handlers(table(seen)))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return port, server

    with _in_a_thread(start) as (loop, (port, server)):
        yield Running(port, seen, server, loop)


@contextlib.contextmanager
def _in_a_thread(start: Callable[[], Awaitable[Any]]) -> Iterator[tuple[Any, Any]]:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    thread = threading.Thread(target=loop.run_forever, name="fake server")
    thread.start()

    async def begin() -> Any:
        await loop.run_in_executor(None, int)  # its thread is no test's
        return await start()

    made: Any = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    try:
        yield loop, made
    finally:
        asyncio.run_coroutine_threadsafe(made[1].stop(0.0), loop).result(30)
        asyncio.run_coroutine_threadsafe(_nothing_left(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _nothing_left() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


class Raw:
    """An HTTP/2 client that says anything."""

    def __init__(self, port: int, greet: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self._buffer = b""
        if greet:
            self.send(frames.PREFACE + frames.settings({}))

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *data: bytes) -> None:
        # The server may have closed: what it said before is what matters.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(b"".join(data))

    def headers(self, path: str = "/fake.Fake/Echo", **more: str | None) -> list[tuple[str, str]]:
        found: dict[str, str | None] = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "test",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        found |= {name.replace("_", "-"): value for name, value in more.items()}
        return [(name, value) for name, value in found.items() if value is not None]

    def opening(self, stream: int, flags: int = END_HEADERS, **more: Any) -> bytes:
        return frame(frames.HEADERS, flags, stream, self.encoder.encode(self.headers(**more)))

    def call(self, stream: int, body: bytes, **more: Any) -> bytes:
        return self.opening(stream, **more) + data(stream, body)

    def read(self) -> tuple[int, int, int, bytes] | None:
        """The next frame: kind, flags, stream, payload; None at the end."""
        while len(self._buffer) < 9 or len(self._buffer) < 9 + (read_u32(self._buffer)[0] >> 8):
            try:
                got = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not got:
                return None
            self._buffer += got
        size, flags, stream = read_head(self._buffer)
        stop = 9 + (size >> 8)
        payload = self._buffer[9:stop]
        self._buffer = self._buffer[stop:]
        return size & 0xFF, flags, stream, payload

    def until(self, kind: int, stream: int | None = None) -> tuple[int, int, int, bytes]:
        """The next frame of that kind."""
        while (got := self.read()) is not None:
            if got[0] == kind and stream in (None, got[2]):
                return got
            if got[0] == frames.HEADERS:
                self.decoder.decode(got[3])
        raise AssertionError(f"the connection ended without a frame of kind {kind}")

    def answer(self, stream: int) -> tuple[dict[str, str], bytes]:
        """All headers of the answer, and its data."""
        found: dict[str, str] = {}
        body = b""
        while (got := self.read()) is not None:
            if got[0] == frames.HEADERS:
                decoded = dict(self.decoder.decode(got[3]))
                found |= decoded if got[2] == stream else {}
            elif got[0] == frames.DATA and got[2] == stream:
                body += got[3]
            elif got[0] == frames.RST_STREAM and got[2] == stream:
                raise AssertionError(f"reset with {frames.Code(read_u32(got[3])[0]).name}")
            if got[2] == stream and got[0] in (frames.HEADERS, frames.DATA) and got[1] & END_STREAM:
                return found, body
        raise AssertionError("the connection ended without an answer")

    def farewell(self) -> tuple[str, str]:
        """The reason of the first GOAWAY."""
        payload = self.until(frames.GOAWAY)[3]
        return frames.Code(read_u32(payload, 4)[0]).name, payload[8:].decode()

    def reset(self, stream: int) -> str:
        return frames.Code(read_u32(self.until(frames.RST_STREAM, stream)[3])[0]).name

    def is_closed(self) -> bool:
        """Whether the server closes the connection."""
        while self.read() is not None:
            pass
        return True


def data(stream: int, body: bytes, flags: int = END_STREAM) -> bytes:
    return frame(frames.DATA, flags, stream, b"\0" + frames.pack_u32(len(body)) + body)
