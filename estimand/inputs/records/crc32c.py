"""CRC-32C as TFRecord files use it, over whole buffers and over many small pieces.

`google-crc32c` goes through the processor's own instruction. For millions of lengths of eight
bytes a call for each would cost more than the sum: a CRC is linear, the register that results
from a message is a sum (XOR) of what each word of it contributes, so NumPy does all at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from google_crc32c import extend

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


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
    return int(extend(0, data if isinstance(data, bytes) else _readonly(data)))


def masked_checksum(data: bytes) -> int:
    """What a TFRecord file stores after `data`."""
    crc = checksum(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def checksums(buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The CRC of each of many pieces of one uint8 buffer."""
    data, ends = buffer.tobytes(), starts + lengths
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


# ---------------------------------------------------------------- many at once


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
