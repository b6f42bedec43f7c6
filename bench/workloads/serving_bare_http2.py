"""The least that answers gRPC calls over HTTP/2.

It reads headers (but looks at none), joins messages and counts windows, as every server has to;
it has no limits, no errors, no deadlines, and gives up where a window is full: not for use.

Headers are read with the `hpack` package, unless the block is remembered. By default that is only
one that begins with an index into HPACK's table; h2load's begin with the path as a text, and are
read each time. `remember_all` is for all blocks that leave the table as it is.
"""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Callable

import numpy as np

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW = 0, 1, 3, 4, 6, 8
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 1, 4, 8, 32
_PREFACE_BYTES = 24
_u32 = struct.Struct(">I")


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = _u32.pack(len(payload))[1:] + bytes((kind, flags)) + _u32.pack(stream)
    return head + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


_HEAD = b"\x88" + _literal(b"content-type", b"application/grpc")
_TRAILERS = _literal(b"grpc-status", b"0")
_MAX_STREAMS, _WINDOW_SIZE = 3, 4  # settings
_LARGEST_WINDOW = 2**31 - 1


def _length_delimited(tag: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes((tag, len(content))) + content


def encode(outputs: np.ndarray) -> bytes:
    """A PredictResponse; one row of ten fits lengths of one byte."""
    sizes = b"".join(_length_delimited(0x12, bytes((8, n))) for n in outputs.shape)
    tensor = b"\x08\x01" + _length_delimited(0x12, sizes)
    tensor += _length_delimited(0x2A, outputs.tobytes())
    entry = _length_delimited(0x0A, b"probabilities") + _length_delimited(0x12, tensor)
    return _length_delimited(0x0A, entry)


def serve(port: int, run: Callable[[np.ndarray], np.ndarray], remember_all: bool) -> None:
    import hpack
    import uvloop
    from tensorflow_serving.apis import predict_pb2

    parse = predict_pb2.PredictRequest.FromString
    waiting: list[tuple[np.ndarray, Connection, int]] = []
    loop = uvloop.new_event_loop()

    def flush() -> None:
        taken = waiting[:]
        waiting.clear()
        outputs = run(taken[0][0] if len(taken) == 1 else np.concatenate([t[0] for t in taken]))
        for row, (_, connection, stream) in enumerate(taken):
            connection.answer(stream, encode(outputs[row : row + 1]))
        for connection in {id(t[1]): t[1] for t in taken}.values():
            connection.write()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            self.transport = transport
            self.buffer = b""
            self.greeted = False
            self.received = 0
            self.window = 65_535
            self.streams: dict[int, list[bytes]] = {}
            self.decoder = hpack.Decoder()
            self.known: dict[bytes, dict[bytes, bytes]] = {}
            settings = ((_MAX_STREAMS, 1000), (_WINDOW_SIZE, _LARGEST_WINDOW))
            chosen = b"".join(struct.pack(">HI", *one) for one in settings)
            self.out = [_frame(_SETTINGS, 0, 0, chosen)]
            self.write()

        def write(self) -> None:
            if self.out:
                self.transport.write(b"".join(self.out))
                self.out = []

        def data_received(self, data: bytes) -> None:
            data = self.buffer + data
            at = 0
            if not self.greeted and len(data) >= _PREFACE_BYTES:
                at, self.greeted = _PREFACE_BYTES, True
            while self.greeted and len(data) - at >= 9:
                size = _u32.unpack_from(data, at)[0] >> 8
                end = at + 9 + size
                if len(data) < end:
                    break
                stream = _u32.unpack_from(data, at + 5)[0]
                self.take(data[at + 3], data[at + 4], stream, data[at + 9 : end])
                at = end
            self.buffer = data[at:]
            if self.received > 16_384:
                self.out.append(_frame(_WINDOW, 0, 0, _u32.pack(self.received)))
                self.received = 0
            self.write()

        def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
            if kind in (_DATA, _HEADERS) and flags & _PADDED:
                payload = payload[1 : len(payload) - payload[0]]
            if kind == _DATA:
                self.received += len(payload)
                parts = self.streams.get(stream)
                if parts is None:
                    return
                parts.append(payload)
                if flags & _END_STREAM:
                    self.done(stream, b"".join(self.streams.pop(stream)))
            elif kind == _HEADERS:
                self.headers(payload[5:] if flags & _PRIORITY else payload)
                self.streams[stream] = []
            elif kind == _WINDOW and not stream:
                self.window += _u32.unpack(payload)[0]
            elif kind == _RESET:
                self.streams.pop(stream, None)
            elif kind in (_SETTINGS, _PING) and not flags & 1:
                self.out.append(_frame(kind, 1, 0, payload if kind == _PING else b""))

        def headers(self, block: bytes) -> dict[bytes, bytes]:
            found = self.known.get(block)
            if found is None:
                before = len(self.decoder.header_table.dynamic_entries)
                found = dict(self.decoder.decode(block, raw=True))
                if len(self.decoder.header_table.dynamic_entries) != before:
                    self.known.clear()
                elif remember_all or block[0] & 0x80:
                    self.known[block] = found  # nothing changed: it will mean the same again
            return found

        def done(self, stream: int, message: bytes) -> None:
            tensor = parse(message[5:]).inputs["x"]
            shape = [dim.size for dim in tensor.tensor_shape.dim]
            x = np.frombuffer(tensor.tensor_content, np.float32).reshape(shape)
            if not waiting:
                loop.call_soon(flush)
            waiting.append((x, self, stream))

        def answer(self, stream: int, message: bytes) -> None:
            self.window -= len(message) + 5
            assert self.window > 0
            self.out += (
                _frame(_HEADERS, _END_HEADERS, stream, _HEAD),
                _frame(_DATA, 0, stream, b"\0" + _u32.pack(len(message)) + message),
                _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _TRAILERS),
            )

    async def main() -> None:
        server = await loop.create_server(Connection, "127.0.0.1", port)
        await server.serve_forever()

    gc.freeze()
    loop.run_until_complete(main())
