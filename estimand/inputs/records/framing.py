"""Where the records of a TFRecord file lie in a buffer, and whether their CRCs are right.

A record is: length (8 bytes), masked CRC of the length (4), data, masked CRC of the data (4).

Checking is done for all records of a buffer together. A message followed by its own CRC leaves
a CRC register of zero. So the stored CRCs are unmasked in place, the register's initial ones are
written into the first bytes of each message, and one pass over the buffer, which no longer needs
to know where records begin, must end with zero. Any fault of a single record leaves another value.
"""

from __future__ import annotations

import struct

import numpy as np

from estimand.inputs.records import crc32c

HEADER = 12
FRAME = 16  # bytes of a record that are not data
_LENGTH = struct.Struct("<Q")
_WINDOW = 20  # CRC of the data before; length, CRC of the length, first four bytes of the data
_RECORDS_PER_LANE = 128
_ZEROS = bytes(5)  # the upper bytes of every length below 16 MB
_ONES = np.uint32(0xFFFFFFFF)


def header_is_right(header: bytes) -> bool:
    """Whether 12 bytes are a length and its CRC."""
    return crc32c.masked_checksum(header[:8]) == int.from_bytes(header[8:12], "little")


def starts_of_records(buffer: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, int]:
    """(where each whole record in `buffer[begin:end]` begins, where the last of them ends).

    Headers are believed, not checked: at a wrong length the walk ends or goes astray.
    """
    lanes = _lane_starts(buffer, begin, end)
    if lanes is not None:
        starts = _walk_lanes(buffer, lanes, end)
        if starts is not None:
            rest, after = _walk(buffer, int(starts[-1]), end)
            return np.concatenate([starts[:-1], rest]), after
    return _walk(buffer, begin, end)


def _walk(buffer: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, int]:
    starts: list[int] = []
    view = buffer.data
    append, unpack, position, last = starts.append, _LENGTH.unpack_from, begin, end - FRAME
    while position <= last:
        following = position + FRAME + unpack(view, position)[0]
        if following > end:
            break
        append(position)
        position = following
    return np.array(starts, np.int64), position


def _lane_starts(buffer: np.ndarray, begin: int, end: int) -> np.ndarray | None:
    """Beginnings of records spread over the buffer, from which to walk side by side."""
    few, after = _walk(buffer, begin, min(end, begin + 32768))
    if len(few) < 16:
        return None  # records so long that walking is cheap
    stride = _RECORDS_PER_LANE * (after - begin) // len(few)
    data = buffer.data
    lanes = [begin]
    for wanted in range(begin + stride, end - stride, stride):
        start = _next_header(data, wanted, min(wanted + 4096, end - FRAME))
        if start is not None:
            lanes.append(start)
    return np.array(lanes, np.int64) if len(lanes) >= 16 else None


def _next_header(data: memoryview, begin: int, end: int) -> int | None:
    piece = bytes(data[begin:end])
    at = piece.find(_ZEROS, 3)
    while at >= 0:
        for start in range(at - 3, at + 1):
            if header_is_right(piece[start : start + HEADER]):
                return begin + start
        at = piece.find(_ZEROS, at + 1)
    return None


def _walk_lanes(buffer: np.ndarray, lanes: np.ndarray, end: int) -> np.ndarray | None:
    """All beginnings from the first lane's to the last lane's; None where lanes do not meet."""
    # Of lengths only the lower half: the upper one is zero, or else the lanes will not meet.
    lengths = np.ndarray(end - 3, "V4", buffer, strides=(1,))
    position, goals, last = lanes[:-1].copy(), lanes[1:], int(lanes[-1])
    steps = []
    while True:
        for _ in range(8):
            steps.append(position)
            position = position + lengths[position].view("<u4")
            position += FRAME
            # Lanes that are done wait at the last goal; a wrong length may point anywhere.
            np.minimum(position, last, out=position)
        if (position >= goals).all():
            break
        if len(steps) > 64 * _RECORDS_PER_LANE:
            return None
    table = np.stack(steps, axis=1)
    inside = table < goals[:, np.newaxis]
    # The first place that is not inside must be the next lane's beginning.
    count = inside.sum(axis=1)
    arrived = np.concatenate([table, position[:, np.newaxis]], axis=1)
    if (np.take_along_axis(arrived, count[:, np.newaxis], axis=1)[:, 0] != goals).any():
        return None
    return np.append(table[inside], last)


def all_right(buffer: np.ndarray, starts: np.ndarray, end: int) -> bool:
    """Whether the headers and data of the records from `starts[0]` to `end` match their CRCs.

    Destroys the contents of the buffer.
    """
    if not len(starts):
        return True
    begin = int(starts[0])
    following = starts[1:]
    if np.diff(starts, append=end).min() >= FRAME + 4:
        words = np.ndarray(buffer.size - _WINDOW + 1, f"V{_WINDOW}", buffer, strides=(1,))
        windows = words[following - 4]
        table = windows.view("<u4").reshape(-1, 5)
        _settle(table[:, 0], table[:, 1], table[:, 3], table[:, 4])
        words[following - 4] = windows
        _settle_word(buffer, end - 4)
        _settle_header(buffer, begin)
    else:
        for position in [*(following - 4).tolist(), end - 4]:
            _settle_word(buffer, position)
        for position in starts.tolist():
            _settle_header(buffer, position)
    return crc32c.register_after(buffer[begin:end]) == 0


def _settle(
    crc_before: np.ndarray, length: np.ndarray, crc_of_length: np.ndarray, data: np.ndarray
) -> None:
    crc_before[:] = crc32c.unmask(crc_before) ^ _ONES
    length ^= _ONES
    crc_of_length[:] = crc32c.unmask(crc_of_length) ^ _ONES
    data ^= _ONES


def _settle_word(buffer: np.ndarray, position: int) -> None:
    piece = buffer[position : position + 4]
    piece[:] = (crc32c.unmask(np.frombuffer(piece.tobytes(), "<u4")) ^ _ONES).view(np.uint8)


def _settle_header(buffer: np.ndarray, position: int) -> None:
    buffer[position : position + 4] ^= 0xFF
    _settle_word(buffer, position + 8)
    buffer[position + HEADER : position + FRAME] ^= 0xFF
