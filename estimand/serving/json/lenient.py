"""JSON as TensorFlow Serving's parser takes it, for bodies that orjson refuses.

NaN and Infinity are numbers, what follows the first value is ignored, and errors are told in that
parser's words.

>>> parse(b'{"instances": [NaN, -Inf]} and more')
{'instances': [nan, -inf]}
>>> parse(b"instances = [1]")
Traceback (most recent call last):
    ...
estimand.serving.status.StatusError: INVALID_ARGUMENT: JSON Parse error: Invalid value. at offset: 0
"""

from __future__ import annotations

import json
import math
from typing import Any

from estimand.serving.status import StatusError, invalid

# Where Python's words begin so, the other parser says this.
_WORDS = {
    "Expecting value": "Invalid value.",
    "Expecting property name": "Missing a name for object member.",
    "Illegal trailing comma": "Missing a name for object member.",
    "Expecting ':'": "Missing a colon after a name of object member.",
    "Unterminated string": "Missing a closing quotation mark in string.",
    "Invalid control character": "Invalid encoding in string.",
    "Invalid \\uXXXX": "Incorrect hex digit after \\u escape in string.",
    "Invalid \\escape": "Invalid escape character in string.",
}
_OPENED_BY = {"]": "[", "}": "{"}
_DIGITS_OF_64_BITS = 20  # with a sign


def parse(body: bytes) -> Any:
    """In a time that grows with the length and no faster, whatever the body is."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _failed("Invalid encoding in string.", error.start) from None
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        raise _failed("The document is empty.", start)
    decoder = json.JSONDecoder(parse_float=_finite, parse_int=_integer)
    try:
        return decoder.raw_decode(_spelled_out(text), start)[0]
    except json.JSONDecodeError as error:
        raise _failed(_words(error), error.pos) from None
    except RecursionError:
        raise invalid("JSON Parse error: nested too deeply.") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise invalid(f"JSON Parse error: Number too big to be stored in double: {digits[:64]}")
    return number


def _integer(digits: str) -> int | float:
    """As the other parser, and orjson: what 64 bits cannot hold is a floating-point number."""
    if len(digits) > _DIGITS_OF_64_BITS:
        return _finite(digits)
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else _finite(digits)


def _spelled_out(text: str) -> str:
    """With `Infinity` for `Inf`, which Python does not take."""
    if "Inf" not in text:
        return text
    pieces = text.split('"')
    for index in _outside_of_strings(pieces):
        if "Inf" in pieces[index]:
            pieces[index] = pieces[index].replace("Infinity", "Inf").replace("Inf", "Infinity")
    return '"'.join(pieces)


def _outside_of_strings(pieces: list[str]) -> list[int]:
    """Which of the pieces between quotation marks are part of no string."""
    indices = []
    is_inside = False
    for index, piece in enumerate(pieces):
        if not is_inside:
            indices.append(index)
            is_inside = True
        elif not piece.endswith("\\") or (len(piece) - len(piece.rstrip("\\"))) % 2 == 0:
            is_inside = False  # the mark that follows is not an escaped one
    return indices


def _words(error: json.JSONDecodeError) -> str:
    if error.msg.startswith("Expecting ','"):
        if _innermost(error.doc[: error.pos]) == "{":
            return "Missing a comma or } after an object member."
        return "Missing a comma or ] after an array element."
    for begins, words in _WORDS.items():
        if error.msg.startswith(begins):
            return words
    return error.msg


def _innermost(text: str) -> str:
    """The bracket that is open at the end: the last one that nothing behind it has closed."""
    pieces = text.split('"')
    closed: list[str] = []
    for index in reversed(_outside_of_strings(pieces)):
        for mark in reversed(pieces[index]):
            if mark in "]}":
                closed.append(_OPENED_BY[mark])
            elif mark in "[{":
                if not closed:
                    return mark
                closed.pop()
    return "["


def _failed(words: str, offset: int) -> StatusError:
    return invalid(f"JSON Parse error: {words} at offset: {offset}")
