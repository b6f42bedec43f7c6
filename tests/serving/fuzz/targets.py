"""What is fuzzed without sockets: functions of bytes that may refuse them, and nothing worse."""

from __future__ import annotations

import asyncio
import json
import math
import struct
import time
from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format

from estimand.core.errors import ConfigError
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.batching.replies import Promise
from estimand.serving.grpc.face import GrpcFace
from estimand.serving.json import examples as json_examples
from estimand.serving.json import input as json_input
from estimand.serving.lean import frames
from estimand.serving.lean.connection import Connection
from estimand.serving.lean.frames import Code, read_u32
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Streaming, Unary
from estimand.serving.lifecycle import config as model_config
from estimand.serving.protos import text_protos
from estimand.serving.rest.api import Api
from estimand.serving.rest.connection import Connection as RestConnection
from estimand.serving.rest.prediction import json_plan_for
from estimand.serving.rest.shared import RestLimits
from estimand.serving.rest.shared import Shared as RestShared
from estimand.serving.status import StatusError
from tests.serving.fuzz.changing import METHODS
from tests.serving.fuzz.world import Finding, Transport, World

_UNPARSED = "Unable to parse the request."


class Target:
    """Called with inputs; raises Finding, or anything else that nobody expected."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self, data: bytes) -> None:
        raise NotImplementedError


class GrpcMessages(Target):
    """The first byte chooses the method, the rest is the message."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        face = GrpcFace(world.manager, world.metrics, world.flags)
        self._answers: list[Any] = [face.table().get(path) for path in METHODS]
        self._starts = [face.starts().get(path) for path in METHODS]

    def __call__(self, data: bytes) -> None:
        which = data[0] % len(METHODS)
        try:
            self.world.run(self._ask(which, data[1:]))
        except StatusError as error:
            if error.name == "INTERNAL" and error.text != _UNPARSED:
                raise Finding(str(error)) from error
        self.world.check_log()

    async def _ask(self, which: int, body: bytes) -> bytes:
        start = self._starts[which]
        if start is None:
            return await self._answers[which](body, None, lambda: ())
        promise: Promise[bytes] = Promise()
        start(body, None, promise, False)
        return await promise.future


class Http2Frames(Target):
    """The first byte says how the rest is cut into reads, and whether it is frames.

    As frames, each begins with a kind, flags, a stream and a length of two bytes: what is damaged
    then is what the frames say, and not always their lengths.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._shared = world.run(self._make_shared())

    async def _make_shared(self) -> Shared:
        async def echo(body: bytes, deadline: Any, metadata: Any) -> bytes:
            metadata()
            return body

        async def slow(body: bytes, deadline: Any, metadata: Any) -> bytes:
            await asyncio.sleep(1000)
            return body

        async def watch(body: bytes, deadline: Any, metadata: Any) -> Any:
            for _ in range(3):
                yield body
                await asyncio.sleep(0)

        def at_once(body: bytes, deadline: Any, reply: Any) -> None:
            if body[:1] == b"!":
                reply.fail(StatusError.of("NOT_FOUND", body.decode("latin-1")))
            else:
                reply.succeed(body)

        table = {
            b"/echo": Unary(echo),
            b"/slow": Unary(slow),
            b"/quick": Unary(echo, at_once),
            b"/watch": Streaming(watch),
        }
        limits = Limits(message_bytes=200_000, streams=20, header_bytes=4096, block_bytes=8192)
        return Shared(table, limits)

    def __call__(self, data: bytes) -> None:
        how, rest = data[0], data[1:]
        sent = b"".join(_as_frames(rest)) if how & 1 else rest
        if how & 2:
            sent = frames.PREFACE + frames.settings({}) + sent
        size = (1 << 20, 1, 100, 5000)[how >> 2 & 3]
        self.world.run(self._talk([sent[i : i + size] for i in range(0, len(sent), size)]))
        self.world.check_log()

    async def _talk(self, parts: list[bytes]) -> None:
        shared, transport = self._shared, Transport()
        connection = Connection(shared)
        connection.connection_made(transport)
        for part in parts:
            connection.data_received(part)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.lifetime.tick(shared.now)
        connection.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        if connection.streams or connection.sender.unsent or shared.connections:
            raise Finding("something of the connection is left")
        if shared.memory.taken or shared.memory.held:
            raise Finding(f"memory is left: {shared.memory.taken}, {shared.memory.held}")
        if Code.INTERNAL_ERROR in _farewells(bytes(transport.written)):
            raise Finding("the connection ended with INTERNAL_ERROR")


def _as_frames(data: bytes) -> Iterator[bytes]:
    while len(data) >= 5:
        kind, flags, stream, size = struct.unpack(">BBBH", data[:5])
        payload, data = data[5 : 5 + size], data[5 + size :]
        yield frames.frame(kind % 11, flags, stream, payload[: frames.MAX_FRAME])


def _farewells(written: bytes) -> set[int]:
    found = set()
    while len(written) >= 9:
        size = read_u32(written)[0] >> 8
        if written[3] == frames.GOAWAY:
            found.add(read_u32(written, 13)[0])
        written = written[9 + size :]
    return found


class Http1Bytes(Target):
    """All that a client of REST can send; the first byte says how it is cut into reads."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        memory = RequestMemory(world.flags.max_pending_bytes)
        api = Api(world.manager, world.metrics, world.flags, lambda: True, memory)
        limits = RestLimits(header_bytes=8192, body_bytes=world.flags.rest_api_max_body_bytes)
        self._shared = RestShared(world.loop, api.start, limits, memory)

    def __call__(self, data: bytes) -> None:
        size = (1 << 20, 1, 50, 1000)[data[0] & 3]
        parts = [data[i : i + size] for i in range(1, len(data), size)]
        transport = Transport()
        self.world.run(self._talk(parts, transport))
        self.world.settle()
        self.world.check_log()
        if self._shared.connections:
            raise Finding("something of the connection is left")
        memory, ends = self._shared.memory, time.monotonic() + 10.0
        while memory.taken or memory.held:  # a model may still run for who is gone
            if time.monotonic() > ends:
                raise Finding(f"memory is left: {memory.taken}, {memory.held}")
            self.world.run(asyncio.sleep(0.001))
        if b"HTTP/1.1 500" in transport.written:
            raise Finding(bytes(transport.written[:2000]).decode("latin-1"))

    async def _talk(self, parts: list[bytes], transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        protocol = RestConnection(self._shared)
        protocol.connection_made(transport)
        for part in parts:
            protocol.data_received(part)
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        protocol.tick(loop.time())
        protocol.connection_lost(None)


class JsonValues(Target):
    """Bodies of REST: read for a model, and compared with Python's own reader."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._versions = [world.manager.find(n, None) for n in ("types", "two_inputs", "bytes")]

    def __call__(self, data: bytes) -> None:
        body = data[1:]
        try:
            document = json_input.parse(body)
            self._compare(body, document)
            if data[0] & 1:
                version = self._versions[data[0] % len(self._versions)]
                plan = json_plan_for(version, json_input.signature_name(document), False)
                json_input.predict_inputs(document, plan.signature, body)
            else:
                json_examples.input_of(document)
        except StatusError as error:
            if error.name == "INTERNAL":
                raise Finding(str(error)) from error
        self.world.check_log()

    def _compare(self, body: bytes, document: Any) -> None:
        try:
            expected = json.loads(body, parse_constant=_refuse, parse_int=float)
        except (ValueError, RecursionError):
            return
        if not _same(expected, document):
            raise Finding(f"{document!r:.200} was read from {body!r:.200}")


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float):  # an integer may have come as one
        number = isinstance(other, int | float) and not isinstance(other, bool)
        return number and math.isclose(one, float(other), rel_tol=1e-15)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


class ConfigTexts(Target):
    """The first byte chooses the kind of the file."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        from tensorflow_serving.config import model_server_config_pb2

        self._kinds = [
            model_server_config_pb2.ModelServerConfig,
            model_server_config_pb2.ModelServerConfig,
            text_protos.batching_parameters,
            lambda: text_protos._message("SSLConfig"),
            lambda: text_protos._message("MonitoringConfig"),
        ]

    def __call__(self, data: bytes) -> None:
        message = self._kinds[data[0] % len(self._kinds)]()
        try:
            text_format.Parse(data[1:].decode(), message)
            if message.DESCRIPTOR.name == "ModelServerConfig":
                settings = model_config.from_message(message, self.world.flags)
                model_config.base_paths(settings or {})
        except (UnicodeDecodeError, text_format.ParseError, StatusError, ConfigError):
            pass
        self.world.check_log()


TARGETS: dict[str, type[Target]] = {
    "grpc": GrpcMessages,
    "http2": Http2Frames,
    "http1": Http1Bytes,
    "json": JsonValues,
    "config": ConfigTexts,
}
