"""The least that answers gRPC calls over HTTP/2. Checks nothing, bounds nothing: not for use."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Callable

import numpy as np

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW = 0, 1, 4, 6, 8
_END_STREAM, _END_HEADERS = 1, 4
_PREFACE_BYTES = 24
_u32 = struct.Struct(">I")


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = _u32.pack(len(payload))[1:] + bytes((kind, flags)) + _u32.pack(stream)
    return head + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


_HEAD = b"\x88" + _literal(b"content-type", b"application/grpc")
_TRAILERS = _literal(b"grpc-status", b"0")
_TABLE_SIZE, _MAX_STREAMS, _WINDOW_SIZE = 1, 3, 4  # settings
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


def serve(port: int, run: Callable[[np.ndarray], np.ndarray]) -> None:
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
            settings = ((_TABLE_SIZE, 0), (_MAX_STREAMS, 1000), (_WINDOW_SIZE, _LARGEST_WINDOW))
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
            if kind == _DATA and payload:  # the whole message: it fits one frame
                self.received += len(payload)
                tensor = parse(payload[5:]).inputs["x"]
                shape = [dim.size for dim in tensor.tensor_shape.dim]
                x = np.frombuffer(tensor.tensor_content, np.float32).reshape(shape)
                if not waiting:
                    loop.call_soon(flush)
                waiting.append((x, self, stream))
            elif kind in (_SETTINGS, _PING) and not flags & 1:
                self.out.append(_frame(kind, 1, 0, payload if kind == _PING else b""))

        def answer(self, stream: int, message: bytes) -> None:
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
