"""What is answered at the page's addresses."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable
from importlib import resources
from typing import Any
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from estimand.serving.inference import sample_requests
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.page import status
from estimand.serving.status import StatusError, invalid

PAGE_PATH = "/"
STATUS_PATH = "/monitoring/status.json"
SIGNATURES_PATH = "/monitoring/signatures.json"

Header = tuple[bytes, bytes]
Found = tuple[int, list[Header], bytes]

_SAFE: list[Header] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class PageAnswers:
    """The page and its two documents."""

    def __init__(self, manager: Manager, metrics: Metrics, is_serving: Callable[[], bool]) -> None:
        self._manager = manager
        self._metrics = metrics
        self._is_serving = is_serving
        self._page: Found | None = None
        self._described: WeakKeyDictionary[LoadedVersion, dict[str, Any]] = WeakKeyDictionary()

    async def find(self, path: str, query: bytes) -> Found | None:
        """The answer to a GET; None if nothing of the page is there."""
        if path == PAGE_PATH:
            if self._page is None:
                self._page = _read_page()
            return self._page
        if path == STATUS_PATH:
            return _json(200, self.status())
        if path == SIGNATURES_PATH:
            try:
                return _json(200, await self._asked_for(query.decode("latin-1")))
            except StatusError as error:
                return _json(error.http, {"error": error.text})
        return None

    def status(self) -> dict[str, Any]:
        is_ready = self._is_serving() and self._manager.is_ready
        return status.status(self._manager, self._metrics, is_ready)

    async def describe(self, version: LoadedVersion) -> dict[str, Any]:
        description = self._described.get(version)
        if description is None:
            # A large graph takes a while to look through.
            description = await asyncio.to_thread(
                sample_requests.describe, version.name, version.number, version.servable
            )
            self._described[version] = description
        return description

    async def _asked_for(self, query: str) -> dict[str, Any]:
        asked = {key: values[-1] for key, values in parse_qs(query).items()}
        number = asked.get("version", "")
        if number and not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise invalid(f"Failed to convert version: {number[:64]} to numeric.")
        version = self._manager.find(asked.get("model", ""), int(number) if number else None)
        with version:
            return await self.describe(version)


def _json(http: int, document: Any) -> Found:
    body = json.dumps(document).encode()
    return http, [(b"content-type", b"application/json"), *_SAFE], body


def _read_page() -> Found:
    text = resources.files("estimand.serving.page").joinpath("page.html").read_text("utf-8")
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; frame-ancestors 'none'; script-src {_hashes(text, 'script')}; "
        f"style-src {_hashes(text, 'style')}"
    )
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode()),
        *_SAFE,
    ]
    return 200, headers, text.encode()


def _hashes(page: str, tag: str) -> str:
    """What the policy lets run: exactly what stands in the file.

    >>> _hashes("<style>a{}</style>", "style")[:12]
    "'sha256-X1Ru"
    """
    contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = (
        base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents
    )
    return " ".join(f"'sha256-{digest}'" for digest in digests)
