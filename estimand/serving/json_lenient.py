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
import re
from typing import Any

from estimand.serving.status import StatusError, invalid

_STRING = r'"(?:[^"\\]|\\.)*"'
_STRING_OR_INFINITY = re.compile(rf"{_STRING}|\bInf(?:inity)?\b", re.DOTALL)
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
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


def parse(body: bytes) -> Any:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _failed("Invalid encoding in string.", error.start) from None
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        raise _failed("The document is empty.", start)
    try:
        return json.JSONDecoder(parse_float=_finite).raw_decode(_spelled_out(text), start)[0]
    except json.JSONDecodeError as error:
        raise _failed(_words(error), error.pos) from None
    except RecursionError:
        raise invalid("JSON Parse error: nested too deeply.") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise invalid(f"JSON Parse error: Number too big to be stored in double: {digits[:64]}")
    return number


def _spelled_out(text: str) -> str:
    """With `Infinity` for `Inf`, which Python does not take."""
    if "Inf" not in text:
        return text
    return _STRING_OR_INFINITY.sub(
        lambda found: found[0] if found[0].startswith('"') else "Infinity", text
    )


def _words(error: json.JSONDecodeError) -> str:
    if error.msg.startswith("Expecting ','"):
        inside = _innermost(error.doc[: error.pos])
        if inside == "{":
            return "Missing a comma or } after an object member."
        return "Missing a comma or ] after an array element."
    for begins, words in _WORDS.items():
        if error.msg.startswith(begins):
            return words
    return error.msg


def _innermost(text: str) -> str:
    """The bracket that is open at the end."""
    opened = ["["]
    for found in _STRING_OR_BRACKET.findall(text):
        if found in ("[", "{"):
            opened.append(found)
        elif found in ("]", "}"):
            opened.pop()
    return opened[-1]


def _failed(words: str, offset: int) -> StatusError:
    return invalid(f"JSON Parse error: {words} at offset: {offset}")
