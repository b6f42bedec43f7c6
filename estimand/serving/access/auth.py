"""Who may ask: bearer tokens and API keys.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w") as file:
...     _ = file.write("# the web shop\\ns3cr3t-of-the-shop\\n")
...     file.flush()
...     tokens = Tokens(file.name)
>>> tokens.allow([(b"authorization", b"Bearer s3cr3t-of-the-shop")])
True
>>> tokens.allow([("x-api-key", "guessed")])
False
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Collection, Iterable
from typing import Any

from estimand.core.errors import ConfigError
from estimand.serving.access.changes import Stamp, stamp, stamp_of
from estimand.serving.status import refused

log = logging.getLogger("estimand.serving")

# What a browser needs to ask its user; programs send one of the first two kinds.
CHALLENGES = (b'Bearer realm="estimand"', b'Basic realm="estimand"')
_SECONDS_BETWEEN_LOOKS = 1.0
_SHORTEST = 8
_LONGEST = 4096

Pairs = Iterable[tuple[Any, Any]]  # headers or metadata, as str or bytes


class Tokens:
    """The tokens of a file, one a line; `#` begins a comment. Read again when the file changes.

    Only their digests are kept. A new file that cannot be used is reported and changes nothing.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._digests, self._seen = self._read()
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS

    def allow(self, headers: Pairs) -> bool:
        """Whether one of the headers carries a token of ours."""
        digests = self.current()
        given = _given(headers)
        if given is None or len(given) > _LONGEST:
            return False
        digest = hashlib.sha256(given).digest()
        is_ours = False
        for known in digests:  # all of them: the time tells nothing
            is_ours |= hmac.compare_digest(known, digest)
        return is_ours

    def current(self) -> tuple[bytes, ...]:
        """What `allow` rests on: another object when the tokens are others."""
        if time.monotonic() >= self._next_look:
            self._look_again()
        return self._digests

    def interceptor(self, open_paths: Collection[str] = ()) -> Any:
        """The same for grpcio, which then reads no request of whom it refuses."""
        import grpc

        async def refuse(_: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, refused().text)

        # One that streams: it is called before a message was read.
        refusal = grpc.stream_unary_rpc_method_handler(refuse)
        allow = self.allow

        class Interceptor(grpc.aio.ServerInterceptor):
            async def intercept_service(self, continuation: Any, call: Any) -> Any:
                if call.method in open_paths or allow(call.invocation_metadata or ()):
                    return await continuation(call)
                return refusal

        return Interceptor()

    def _look_again(self) -> None:
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        try:
            if stamp_of(self._path) != self._seen:
                self._digests, self._seen = self._read()
        except ConfigError as error:
            log.error("The tokens stay as they were: %s", error)

    def _read(self) -> tuple[tuple[bytes, ...], Stamp]:
        try:
            with open(self._path, encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                lines = [line.strip() for line in file]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--auth_tokens_file={self._path} cannot be read: {error}") from error
        tokens = [line for line in lines if line and not line.startswith("#")]
        if not tokens:
            raise ConfigError(
                f"--auth_tokens_file={self._path} has no token: nobody could ask anything. Write "
                "one a line, such as the output of: openssl rand -hex 32"
            )
        for number, line in enumerate(lines, 1):
            if line in tokens and (len(line) < _SHORTEST or not line.isascii() or " " in line):
                raise ConfigError(
                    f"{self._path}, line {number}: a token has {_SHORTEST} or more ASCII "
                    "characters and no space. Make one with: openssl rand -hex 32"
                )
        if os.name == "posix" and status.st_mode & 0o004:
            log.warning("Every user of this machine can read %s: chmod o-r", self._path)
        return tuple(hashlib.sha256(t.encode()).digest() for t in tokens), stamp(status)


def _given(headers: Pairs) -> bytes | None:
    for name, value in headers:
        if name in (b"authorization", "authorization"):
            return _from_authorization(_bytes(value))
        if name in (b"x-api-key", "x-api-key"):
            return _bytes(value).strip()
    return None


def _from_authorization(value: bytes) -> bytes | None:
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":  # browsers: any user, the token as the password
        try:
            return base64.b64decode(rest, validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None


def _bytes(value: Any) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
