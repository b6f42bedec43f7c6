"""Paths of the REST API."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from estimand.serving.status import invalid

_WHICH = r"(?:/versions/(\d+)|/labels/([^/:]+))?"
_POST = re.compile(rf"/v1/models/([^/:]+){_WHICH}:(classify|regress|predict)", re.IGNORECASE)
_GET = re.compile(rf"/v1/models(?:/([^/:]+))?{_WHICH}(?:/(metadata))?", re.IGNORECASE)


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
    pattern = {"POST": _POST, "GET": _GET}.get(method)
    match = pattern.fullmatch(path) if pattern else None
    if match is None:
        raise invalid(f"Malformed request: {method} {path}")
    name, version, label, action = match.groups()
    if not name:
        raise invalid("Missing model name in request.")
    if version is not None and int(version) >= 2**63:
        raise invalid(f"Failed to convert version: {version} to numeric.")
    return Route(
        unquote(name),
        None if version is None else int(version),
        None if label is None else unquote(label),
        (action or "status").lower(),
    )
