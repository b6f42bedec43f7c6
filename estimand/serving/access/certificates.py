"""Certificates that are exchanged while the server runs.

They are looked at when somebody connects, at most once a second. Who is connected stays.
"""

from __future__ import annotations

import logging
import os
import pickle
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from estimand.core.errors import ConfigError
from estimand.serving.access.changes import Stamp, stamp_of
from estimand.serving.access.tls import TlsSettings

log = logging.getLogger("estimand.serving")

_SECONDS_BETWEEN_LOOKS = 1.0


class Certificates:
    """An SSLConfig file and the files it names, read again when one of them changes.

    What cannot be used is told and changes nothing; it is tried until it can be. `last` are those
    that another process had, for one that starts where there is nothing to use.
    """

    def __init__(self, path: str, last: TlsSettings | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()  # grpcio asks on threads of its own
        self._told = ""
        try:
            self._settings = TlsSettings.read(path)
        except ConfigError as error:
            if last is None:
                raise
            self._settings = last
            self._tell(error)
        self._seen: list[Stamp | None] = []  # they are read once more, and then when they change
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS

    def current(self) -> TlsSettings:
        """What the next connection is to see; the same object until it changes."""
        with self._lock:
            if time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
                self._look_again()
            return self._settings

    def context(self) -> ssl.SSLContext:
        """For asyncio's servers, and for all of their life."""
        return _FreshContext(self)

    def grpcio_credentials(self) -> Any:
        import grpc

        given = self.current()

        def fetch() -> Any:
            nonlocal given
            before, given = given, self.current()
            return None if given is before else given.grpcio_configuration()

        return grpc.dynamic_ssl_server_credentials(
            given.grpcio_configuration(), fetch, require_client_authentication=given.verify_clients
        )

    def _look_again(self) -> None:
        stamps = [stamp_of(file) for file in self._settings.files]
        if stamps == self._seen and not self._told:
            return
        try:
            new_settings = TlsSettings.read(self._path)
            if new_settings.verify_clients != self._settings.verify_clients:
                raise ConfigError(
                    f"{self._path}: client_verify has changed, which needs a restart of the server."
                )
        except ConfigError as error:
            self._tell(error)
            return
        self._told = ""
        if new_settings == self._settings and new_settings.files == self._settings.files:
            self._seen = stamps
            return
        self._seen = []  # it may name other files now
        self._settings = new_settings
        log.info("%s: new connections get the new certificates", self._path)

    def _tell(self, error: ConfigError) -> None:
        if str(error) != self._told:
            self._told = str(error)
            log.error("The certificates stay as they were: %s", error)


class _FreshContext(ssl.SSLContext):
    """Each connection gets the context of the certificates that hold when it is made.

    A context that is changed itself would keep authorities that were taken away, and sessions of
    clients whom they had signed.
    """

    def __new__(cls, _: Certificates) -> _FreshContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._protocols: list[str] = []
        self._settings: TlsSettings | None = None
        self._context: ssl.SSLContext

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._protocols = list(alpn_protocols)
        self._settings = None

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        settings = self._certificates.current()
        if settings is not self._settings:
            self._context = settings.context()
            if self._protocols:
                self._context.set_alpn_protocols(self._protocols)
            self._settings = settings
        return self._context.wrap_bio(*arguments, **more)


def hand_over(kept: Mapping[str, Certificates]) -> BinaryIO:
    """A file for a process that may start while there is nothing to use. The keys in it are on no
    disk, and in nobody's environment."""
    file: BinaryIO
    if hasattr(os, "memfd_create"):
        file = open(os.memfd_create("estimand-tls"), "w+b")  # noqa: SIM115
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115
    pickle.dump({path: certificates.current() for path, certificates in kept.items()}, file)
    file.flush()
    return file


def take_over(descriptor: int) -> dict[str, TlsSettings]:
    """What the process that started this one handed over, by the path of the SSLConfig."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        read: dict[str, TlsSettings] = pickle.load(file)
    return read
