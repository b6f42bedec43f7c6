"""CRC-32C as TFRecord files use it, over whole buffers and over many small pieces.

A CRC is linear: the register that results from a message is a sum (XOR) of what each word of it
contributes. So many words, or many messages, can be worked on at once with NumPy. With
`google-crc32c` installed the long runs go through the processor's own instruction instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

try:  # about ten times as fast as NumPy, but everything works without it
    from google_crc32c import extend as _extend
except ImportError:  # pragma: no cover - the tests set _extend to None instead
    _extend = None

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_FOLD_WORDS = 4096
_SHORT_BYTES = 4096


def mask(crc: np.ndarray) -> np.ndarray:
    """What a TFRecord file stores in place of a CRC (uint32).

    >>> hex(mask(np.array([0xFFFFFFFF], np.uint32))[0])
    '0xa282ead7'
    """
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)


def unmask(stored: np.ndarray) -> np.ndarray:
    """The inverse of `mask`."""
    turned = stored - np.uint32(_MASK_DELTA)
    return (turned >> np.uint32(17)) | (turned << np.uint32(15))


def checksum(data: bytes | np.ndarray) -> int:
    """The CRC of one message.

    >>> hex(checksum(b"123456789"))
    '0xe3069283'
    """
    if _extend is not None:
        return int(_extend(0, data if isinstance(data, bytes) else _readonly(data)))
    piece = np.frombuffer(data, np.uint8)
    return int(_checksums_of_rows(piece, np.array([0]), np.array([piece.size]))[0])


def masked_checksum(data: bytes) -> int:
    """What a TFRecord file stores after `data`."""
    crc = checksum(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def checksums(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The CRC of each of many pieces of one uint8 buffer."""
    if _extend is None:
        return _checksums_of_rows(buffer, starts, lengths)
    data, extend = buffer.tobytes(), _extend
    ends = starts + lengths
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.fromiter((extend(0, data[a:b]) for a, b in pairs), np.uint32, len(starts))


def checksums_of_lengths(lengths: np.ndarray) -> np.ndarray:
    """The CRC of each length as eight bytes, as the header of a record holds it."""
    values = np.asarray(lengths, np.uint64)
    low, high = values.astype(np.uint32), (values >> np.uint64(32)).astype(np.uint32)
    step = _multiplier(4)
    return step(step(low ^ np.uint32(_ONES)) ^ high) ^ np.uint32(_ONES)


def _readonly(buffer: np.ndarray) -> np.ndarray:
    view = buffer.view()
    view.flags.writeable = False
    return view


# ---------------------------------------------------------------- arithmetic with NumPy


@functools.cache
def _byte_table() -> np.ndarray:
    values: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = (values >> np.uint32(1)) ^ np.where(values & 1, np.uint32(_POLYNOMIAL), 0).astype(
            np.uint32
        )
    return values


def _apply(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Bit b of a value contributes `matrix[b]`."""
    result = np.zeros_like(values)
    for bit in range(32):
        result ^= ((values >> np.uint32(bit)) & np.uint32(1)) * matrix[bit]
    return result


@functools.cache
def _shift_matrix(number_of_bytes: int) -> np.ndarray:
    """What each bit of a register becomes after that many zero bytes."""
    if number_of_bytes == 1:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return (bits >> np.uint32(8)) ^ _byte_table()[bits & np.uint32(255)]
    half = _shift_matrix(number_of_bytes // 2)
    doubled = _apply(half, half)
    return _apply(_shift_matrix(1), doubled) if number_of_bytes % 2 else doubled


@functools.cache
def _multiplier(number_of_bytes: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function that moves registers on by that many zero bytes."""
    matrix = _shift_matrix(number_of_bytes)
    halves: np.ndarray = np.arange(1 << 16, dtype=np.uint32)
    low, high = _apply(matrix, halves), _apply(matrix, halves << np.uint32(16))

    def multiply(values: np.ndarray) -> np.ndarray:
        return low[values & np.uint32(0xFFFF)] ^ high[values >> np.uint32(16)]

    return multiply


def _fold(buffer: np.ndarray) -> int:
    """The register after a buffer, from zero: all columns of a table of words, row after row."""
    row_bytes = 4 * _FOLD_WORDS
    # Zeros in front change nothing, as the register starts from zero.
    padded: np.ndarray = np.zeros(-(-max(buffer.size, 1) // row_bytes) * row_bytes, np.uint8)
    padded[padded.size - buffer.size :] = buffer
    rows: np.ndarray = padded.view("<u4").reshape(-1, _FOLD_WORDS)
    onward = _multiplier(row_bytes)
    state = rows[0]
    for row in rows[1:]:
        state = onward(state) ^ row
    while state.size > 1:
        half = state.size // 2
        state = _apply(_shift_matrix(4 * half), state[:half]) ^ state[half:]
    return int(_multiplier(4)(state)[0])


def _checksums_of_rows(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """CRCs of many pieces side by side, four bytes of each at a time, aligned at their ends."""
    lengths = np.asarray(lengths, np.int64)
    result: np.ndarray = np.zeros(len(lengths), np.uint32)
    for index in np.flatnonzero(lengths >= _SHORT_BYTES):
        begin = int(starts[index])
        piece = buffer[begin : begin + int(lengths[index])].copy()
        piece[:4] ^= 0xFF  # the register begins with all ones
        result[index] = _fold(piece) ^ _ONES
    short = np.flatnonzero((lengths < _SHORT_BYTES) & (lengths > 0))
    if short.size:
        result[short] = _checksums_of_short(buffer, starts[short], lengths[short])
    return result


def _checksums_of_short(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    # Four bytes of room in front of the first piece, whose first word may begin before it.
    room = np.concatenate([np.zeros(4, np.uint8), buffer, np.zeros(4, np.uint8)])
    words = np.ndarray(room.size - 3, "V4", room, strides=(1,))
    ends = starts + lengths + 4
    step = _multiplier(4)
    state: np.ndarray = np.zeros(len(lengths), np.uint32)
    for left in range(-(-int(lengths[0]) // 4), 0, -1):
        active = int(np.searchsorted(-lengths, -4 * (left - 1), side="left"))
        word = words[ends[:active] - 4 * left].view("<u4")
        state[:active] = step(state[:active] ^ _ones_at_start(word, lengths[:active] - 4 * left))
    # Pieces shorter than four bytes: the rest of the initial ones passes over their end.
    for missing in range(1, 4):
        rows = lengths == 4 - missing
        if rows.any():
            state[rows] ^= np.uint32(_ONES >> (8 * (4 - missing)))
    result = np.empty_like(state)
    result[order] = state ^ np.uint32(_ONES)
    return result


def _ones_at_start(word: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Words of a piece with what lies before the piece cleared and its first 4 bytes inverted.

    `before`: how many bytes of the piece precede the word; negative where it begins inside.
    """
    if before.min() >= 4:
        return word
    shift = np.clip(-before, 0, 4).astype(np.uint64) * np.uint64(8)
    inside = ((np.uint64(_ONES) << shift) & np.uint64(_ONES)).astype(np.uint32)
    # The first four bytes reach `4 - before` bytes into this word (or none of it).
    reach = np.clip(4 - before, 0, 4)
    until = ((np.uint64(1) << (reach.astype(np.uint64) * np.uint64(8))) - np.uint64(1)).astype(
        np.uint32
    )
    inverted = np.where(before < 0, inside, until)
    return (word & inside) ^ inverted
