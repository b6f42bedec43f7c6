"""Where the records of a TFRecord file lie in a buffer, and whether their CRCs are right.

A record is: length (8 bytes), masked CRC of the length (4), data, masked CRC of the data (4).

Checking is done for all records of a buffer together, with one pass that need not know where
records begin. A message that is followed by its own CRC leaves the CRC register at a value that
does not depend on the message. So the stored CRCs are unmasked in place, and changed by a
constant such that this value is the one from which the next message starts. A fault of any
single record leaves another value at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from estimand.inputs.records import crc32c

HEADER = 12
FRAME = 16  # bytes of a record that are not data
WRONG_DATA = "the data does not match its CRC (changed after it was written)"
WRONG_LENGTH = "the length does not match its CRC; what follows cannot be read"
_LENGTH = struct.Struct("<Q")
_WINDOW = 16  # CRC of the data before, length, CRC of the length
_RECORDS_PER_LANE = 32
_LEAST_LANES = 16
_DELTA = np.uint32(0xA282EAD8)
# A register that four zero bytes turn into ones, inverted: see `_link`.
_LINK = np.uint32(0x641F6454 ^ 0xFFFFFFFF)


def header_is_right(header: bytes) -> bool:
    """Whether 12 bytes are a length and its CRC."""
    return crc32c.masked_checksum(header[:8]) == int.from_bytes(header[8:12], "little")


def starts_of_records(data: bytearray, end: int) -> tuple[np.ndarray, int]:
    """(where each whole record in `data[:end]` begins, where the last of them ends).

    Headers are believed, not checked: at a wrong length the walk ends or goes astray.
    """
    lanes = _lane_starts(data, end)
    if lanes is not None:
        starts = _walk_lanes(data, lanes)
        if starts is not None:
            rest, after = _walk(data, int(starts[-1]), end)
            return np.concatenate([starts[:-1], rest]), after
    return _walk(data, 0, end)


def _walk(data: bytearray, begin: int, end: int) -> tuple[np.ndarray, int]:
    starts: list[int] = []
    append, unpack, position, last = starts.append, _LENGTH.unpack_from, begin, end - FRAME
    while position <= last:
        following = position + FRAME + unpack(data, position)[0]
        if following > end:
            break
        append(position)
        position = following
    return np.array(starts, np.int64), position


def _lane_starts(data: bytearray, end: int) -> np.ndarray | None:
    """Beginnings of records spread over the buffer, from which to walk side by side."""
    few, after = _walk(data, 0, min(end, 32768))
    if len(few) < _LEAST_LANES:
        return None  # records so long that walking is cheap
    mean = after // len(few)
    # The upper bytes of a length are zeros, which are rare elsewhere.
    longest = int(np.diff(few, append=after).max()) - FRAME
    used = max(1, -(-longest.bit_length() // 8))
    stride, zeros, find = _RECORDS_PER_LANE * mean, bytes(8 - used), data.find
    wanted = range(stride, end - stride, stride)
    places = np.array([find(zeros, w, w + 4 * mean) for w in wanted], np.int64)
    starts = places[places >= used] - used
    lanes = starts[_headers_are_right(data, starts)]
    if len(lanes) < max(_LEAST_LANES, len(wanted) // 2):
        return None
    return np.concatenate([[0], lanes])


def _headers_are_right(data: bytearray, starts: np.ndarray) -> np.ndarray:
    headers = _pieces(data, HEADER)[starts].view("<u4").reshape(-1, 3)
    lengths = np.ascontiguousarray(headers[:, :2]).view("<u8")[:, 0]
    return headers[:, 2] == crc32c.mask(crc32c.checksums_of_lengths(lengths))


def judge(data: bytearray, starts: np.ndarray) -> Iterator[tuple[int, int, str | None]]:
    """(begin, size, fault or None) of each record of a buffer, up to the first wrong length."""
    ends: np.ndarray = np.append(starts[1:], len(data))
    if len(starts) == 0:
        return
    right = _headers_are_right(data, starts)
    wrong = np.flatnonzero(~right)
    count = int(wrong[0]) if len(wrong) else len(starts)
    begin, sizes = starts[:count], (ends - starts)[:count]
    sums = crc32c.checksums(np.frombuffer(data, np.uint8), begin + HEADER, sizes - FRAME)
    stored = _pieces(data, 4)[ends[:count] - 4].view("<u4")
    as_written = crc32c.mask(sums) == stored
    for start, size, good in zip(begin.tolist(), sizes.tolist(), as_written.tolist(), strict=True):
        yield start, size, None if good else WRONG_DATA
    if count < len(starts):
        yield int(starts[count]), 0, WRONG_LENGTH


def _pieces(data: bytearray, size: int) -> np.ndarray:
    """The `size` bytes from every place of the buffer on, to be read and written by position."""
    return np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))


def _walk_lanes(data: bytearray, lanes: np.ndarray) -> np.ndarray | None:
    """All beginnings from the first lane's to the last lane's; None where lanes do not meet."""
    # Of lengths only the lower half: the upper one is zero, or else the lanes will not meet.
    lengths = _pieces(data, 4)
    position, goals, last = lanes[:-1].copy(), lanes[1:], int(lanes[-1])
    steps = [position]
    while not (position >= goals).all():
        if len(steps) > 64 * _RECORDS_PER_LANE:
            return None
        for _ in range(8):
            position = position + lengths[position].view("<u4")
            position += FRAME
            # Lanes that are done wait at the last goal; a wrong length may point anywhere.
            np.minimum(position, last, out=position)
            steps.append(position)
    table = np.stack(steps, axis=1)
    inside = table < goals[:, np.newaxis]
    # The first place that is not inside must be the next lane's beginning.
    arrived = np.take_along_axis(table, inside.sum(axis=1)[:, np.newaxis], axis=1)[:, 0]
    if (arrived != goals).any():
        return None
    return np.append(table[inside], last)


def all_right(data: bytearray, starts: np.ndarray, end: int) -> bool:
    """Whether the headers and data of the records from `starts[0]` to `end` match their CRCs.

    Destroys the contents of the buffer.
    """
    if not len(starts):
        return True
    begin = int(starts[0])
    between: np.ndarray = starts[1:] - 4
    if len(between):
        places = _pieces(data, _WINDOW)
        windows = places[between]
        words = windows.view("<u4").reshape(-1, 4)
        words[:, 0] = _link(words[:, 0])
        words[:, 3] = _link(words[:, 3])
        places[between] = windows
    view = np.frombuffer(data, np.uint8)
    for place in (begin + 8, end - 4):
        word = np.frombuffer(view[place : place + 4].tobytes(), "<u4")
        view[place : place + 4] = _link(word).view(np.uint8)
    return crc32c.checksum(view[begin:end]) == 0


def _link(stored: np.ndarray) -> np.ndarray:
    """What to feed in place of a stored CRC, so that a right one leaves a register of all ones.

    The register R after a message is its CRC inverted. Feeding the word W makes it what four
    zero bytes make of R ^ W, which is all ones for W = R ^ 0x641F6454.
    """
    turned = stored - _DELTA
    low = turned >> np.uint32(17)
    turned <<= np.uint32(15)
    turned |= low
    turned ^= _LINK
    return turned
