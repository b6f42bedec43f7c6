"""Numbers of seven bits a byte, the lowest first, as protocol buffers and LevelDB's tables have."""

from __future__ import annotations

_MOST_BITS = 70  # ten bytes, which hold any number of 64 bits


def encode(number: int) -> bytes:
    """A number that is not negative.

    >>> encode(300)
    b'\\xac\\x02'
    """
    if number < 0x80:
        return bytes((number,))
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def decode(data: bytes, place: int) -> tuple[int, int]:
    """The number at `place`, and where it ends; IndexError if it does not.

    >>> decode(b"\\xff\\xac\\x02", 1)
    (300, 3)
    """
    number = 0
    for shift in range(0, _MOST_BITS, 7):
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise IndexError("longer than any number is")
