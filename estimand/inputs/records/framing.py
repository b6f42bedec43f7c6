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
_RECORDS_PER_LANE = 24
_LEAST_LANES = 16
_SAMPLE_BYTES = 1 << 15
_DELTA = np.uint32(0xA282EAD8)
# A register that four zero bytes turn into ones, inverted: see `_link`.
_LINK = np.uint32(0x641F6454 ^ 0xFFFFFFFF)


def header_is_right(header: bytes) -> bool:
    """Whether 12 bytes are a length and its CRC."""
    return crc32c.masked_checksum(header[:8]) == int.from_bytes(header[8:12], "little")


def starts_of_records(data: bytearray, begin: int, end: int) -> tuple[np.ndarray, int]:
    """(where each whole record in `data[begin:end]` begins, where the last of them ends).

    Headers are believed, not checked: at a wrong length the walk ends or goes astray.
    """
    few, after = _walk(data, begin, min(end, begin + _SAMPLE_BYTES))
    if len(few) >= _LEAST_LANES:  # else they are so long that walking is cheap
        lanes = _lane_starts(data, begin, end, (after - begin) // len(few))
        starts = None if lanes is None else _walk_lanes(data, lanes)
        if starts is not None:
            rest, after = _walk(data, int(starts[-1]), end)
            return np.concatenate([starts[:-1], rest]), after
    rest, after = _walk(data, after, end)
    return np.concatenate([few, rest]), after


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


def _lane_starts(data: bytearray, begin: int, end: int, mean: int) -> np.ndarray | None:
    """Beginnings of records spread over the buffer, from which to walk side by side.

    `mean`: about how many bytes a record has. The upper bytes of a length are zeros, which are
    rarer elsewhere, and any five zeros hold two words of two bytes that begin at an even place.
    """
    stride = _RECORDS_PER_LANE * mean & ~1
    count = (end - begin) // stride - 2
    if count < _LEAST_LANES:
        return None
    first, window = begin + stride, mean + 32  # words: two records
    words = np.ndarray((count, window), "<u2", data, offset=first, strides=(stride, 2))
    zero = words == 0
    pairs = zero[:, 1:] & zero[:, :-1]
    found = first + np.arange(count) * stride + 2 * pairs.argmax(axis=1)
    # A length of one to three bytes, and perhaps one more zero before the words.
    places = found[:, np.newaxis] - np.arange(1, 5)
    right = _headers_are_right(data, places.ravel()).reshape(places.shape)
    lanes = places[np.arange(count), right.argmax(axis=1)][right.any(axis=1)]
    if len(lanes) < max(_LEAST_LANES, count // 2):
        return None
    return np.concatenate([[begin], lanes])


def _headers_are_right(data: bytearray, starts: np.ndarray) -> np.ndarray:
    headers = _pieces(data, HEADER)[starts].view("<u4").reshape(-1, 3)
    lengths = np.ascontiguousarray(headers[:, :2]).view("<u8")[:, 0]
    right: np.ndarray = lengths < len(data)  # most places that are none are refused by this
    likely = np.flatnonzero(right)
    sums = crc32c.mask(crc32c.checksums_of_lengths(lengths[likely]))
    right[likely] = headers[likely, 2] == sums
    return right


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
    lengths = np.ndarray(len(data) - 7, "<i8", data, strides=(1,))
    goals, last = lanes[1:], np.uint64(lanes[-1])
    steps = [lanes[:-1]]
    while not (steps[-1] >= goals).all():
        if len(steps) > 64 * _RECORDS_PER_LANE:
            return None
        for _ in range(4):
            position = lengths[steps[-1]]
            position += steps[-1]
            position += FRAME
            # Lanes that are done wait at the last goal; a wrong length may point anywhere, also
            # before the buffer, which is far behind it when the sign is taken for a digit.
            unsigned = position.view(np.uint64)
            np.minimum(unsigned, last, out=unsigned)
            steps.append(position)
    table = np.array(steps)
    inside = table < goals
    # The first place that is not inside must be the next lane's beginning.
    arrived = table[inside.sum(axis=0), np.arange(len(goals))]
    if (arrived != goals).any():
        return None
    return np.append(table.T[inside.T], goals[-1])


def all_right(data: bytearray, starts: np.ndarray, end: int) -> bool:
    """Whether the headers and data of the records from `starts[0]` to `end` match their CRCs.

    Destroys the contents of the buffer. Damage of one place is always found where a CRC finds
    it (any run of up to 32 wrong bits, for one); other damage with a chance of 1 - 2**-32.
    """
    return not len(starts) or crc32c.checksum(linked(data, starts, end)) == 0


def linked(data: bytearray, starts: np.ndarray, end: int) -> np.ndarray:
    """The records from `starts[0]` to `end` as one message, of CRC 0 if they match theirs.

    Destroys the contents of the buffer.
    """
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
    return view[begin:end]


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
