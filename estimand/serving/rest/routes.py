"""Paths of the REST API."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from estimand.serving.status import StatusError, invalid

_ACTIONS = ("classify", "regress", "predict")
_CHOICES = ("versions", "labels")
_MOST_DIGITS = 19  # of a number of 64 bits


@dataclass(frozen=True)
class Route:
    """Which model, which version, and what of it."""

    model: str
    version: int | None
    label: str | None
    action: str  # predict, classify, regress, metadata, status


def find(method: str, path: str) -> Route:
    """The route of a path below /v1/.

    >>> find("POST", "/v1/models/half/versions/3:predict")
    Route(model='half', version=3, label=None, action='predict')
    >>> find("GET", "/v1/models/half/labels/stable/metadata").action
    'metadata'
    """
    rest, _, action = path.rpartition(":") if method == "POST" else (path, "", "status")
    action = action.lower()
    start, *parts = rest.split("/")
    if (
        start
        or [part.lower() for part in parts[:2]] != ["v1", "models"]
        or method not in ("GET", "POST")
        or (method == "POST" and action not in _ACTIONS)
        or path.count(":") > (method == "POST")
        or not all(parts)
        or len(parts) > 6
    ):
        raise _malformed(method, path)
    del parts[:2]
    if method == "GET" and len(parts) in (2, 4) and parts[-1].lower() == "metadata":
        action = parts.pop().lower()
    if method == "GET" and (not parts or (len(parts) == 2 and parts[0].lower() in _CHOICES)):
        raise invalid("Missing model name in request.")
    if len(parts) == 1:
        return Route(unquote(parts[0]), None, None, action)
    if len(parts) != 3 or parts[1].lower() not in _CHOICES:
        raise _malformed(method, path)
    name, choice, which = parts
    if choice.lower() == "labels":
        return Route(unquote(name), None, unquote(which), action)
    if not (which.isascii() and which.isdecimal()):
        raise _malformed(method, path)
    return Route(unquote(name), _number(which), None, action)


def _number(digits: str) -> int:
    if len(digits.lstrip("0")) > _MOST_DIGITS or int(digits[-_MOST_DIGITS:]) >= 2**63:
        raise invalid(f"Failed to convert version: {digits} to numeric.")
    return int(digits[-_MOST_DIGITS:])


def _malformed(method: str, path: str) -> StatusError:
    return invalid(f"Malformed request: {method} {path}")
