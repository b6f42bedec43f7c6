"""Numbers of seven bits a byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimand.core.files import varints


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**64 - 1, b"\xff" * 9 + b"\x01"),
    ],
)
def test_as_protocol_buffers_write_it(number: int, encoded: bytes) -> None:
    assert varints.encode(number) == encoded


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_what_was_written_is_read_between_other_bytes(
    number: int, before: bytes, after: bytes
) -> None:
    encoded = varints.encode(number)
    read = varints.decode(before + encoded + after, len(before))
    assert read == (number, len(before) + len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 10 + b"\x01"])
def test_number_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(IndexError):
        varints.decode(data, 0)
