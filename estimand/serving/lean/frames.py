"""HTTP/2 frames as bytes (RFC 9113).

>>> frame(PING, ACK, 0, b"12345678").hex()
'0000080601000000003132333435363738'
"""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_ENABLE_PUSH = 2
SETTINGS_MAX_CONCURRENT_STREAMS = 3
SETTINGS_INITIAL_WINDOW_SIZE = 4
SETTINGS_MAX_FRAME_SIZE = 5
SETTINGS_MAX_HEADER_LIST_SIZE = 6

HEAD_SIZE = 9
MAX_FRAME = 16_384  # what we accept; HTTP/2's default
LARGEST_FRAME = 2**24 - 1
FIRST_WINDOW = 65_535
LARGEST_WINDOW = 2**31 - 1

# Length and kind in one number, flags, stream.
read_head = struct.Struct(">IBI").unpack_from
read_u32 = struct.Struct(">I").unpack_from
pack_u32 = struct.Struct(">I").pack
pack_head = struct.Struct(">IBI").pack
pack_setting = struct.Struct(">HI").pack
iter_settings = struct.Struct(">HI").iter_unpack


class Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """The peer broke a rule that ends the connection."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        self.text = text


class StreamFault(Exception):
    """The peer broke a rule that ends one stream."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        self.text = text


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return pack_head(len(payload) << 8 | kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(pack_setting(*pair) for pair in values.items()))


def window_update(stream: int, amount: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, pack_u32(amount))


def reset(stream: int, code: Code) -> bytes:
    return frame(RST_STREAM, 0, stream, pack_u32(code))


def goaway(last_stream: int, code: Code, text: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, pack_u32(last_stream) + pack_u32(code) + text.encode())


def unpadded(payload: bytes) -> bytes:
    """The payload of a frame with the flag PADDED."""
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "padding is longer than its frame")
    return payload[1 : len(payload) - payload[0]]
