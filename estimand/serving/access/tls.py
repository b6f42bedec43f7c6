"""TLS: TensorFlow Serving's SSLConfig file, for every face of the server.

The file holds the keys and certificates themselves, as TensorFlow Serving has it, or the paths of
their files:

    server_key: "/etc/tls/tls.key"
    server_cert: "/etc/tls/tls.crt"
    custom_ca: "/etc/tls/ca.crt"
    client_verify: true
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from estimand.core.errors import ConfigError
from estimand.serving.protos.text_protos import read_ssl_config


@dataclass(frozen=True)
class TlsSettings:
    """What a server shows, and whom it believes. All in PEM."""

    key: bytes = field(repr=False)
    certificate: bytes
    authorities: bytes = b""  # that sign the clients' certificates
    verify_clients: bool = False
    files: tuple[str, ...] = field(default=(), compare=False)  # that all this was read from

    @classmethod
    def read(cls, path: str) -> TlsSettings:
        """From a text-format SSLConfig. ConfigError says what is wrong with it."""
        message = read_ssl_config(path)
        files = [path]
        settings = cls(
            _pem(path, "server_key", message.server_key, files),
            _pem(path, "server_cert", message.server_cert, files),
            _pem(path, "custom_ca", message.custom_ca, files) if message.custom_ca else b"",
            message.client_verify,
            tuple(files),
        )
        if settings.verify_clients and not settings.authorities:
            raise ConfigError(
                f"{path}: client_verify is set without custom_ca. Add custom_ca, the certificate "
                "of the authority that signs the clients' certificates."
            )
        try:
            settings.context()
        except (OSError, ValueError) as error:  # ssl.SSLError is one of the first
            raise ConfigError(
                f"{path}: server_key, server_cert and custom_ca cannot be used: {error}. They are "
                "to be in PEM, the key without a password and the one of the certificate."
            ) from error
        return settings

    def context(self) -> ssl.SSLContext:
        """For asyncio's servers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        with _as_file(self.certificate.rstrip() + b"\n" + self.key) as path:
            # A password that is asked for would wait at the terminal for ever.
            context.load_cert_chain(path, password=_no_password)
        if self.verify_clients:
            context.load_verify_locations(cadata=self.authorities.decode("ascii"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def grpcio_configuration(self) -> Any:
        import grpc

        return grpc.ssl_server_certificate_configuration(
            [(self.key, self.certificate)], root_certificates=self.authorities or None
        )


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path of it, readable by us alone: OpenSSL's Python face takes a chain from a file only.

    In memory where that can be: the key is on no disk, and none can be too full for it.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("estimand-tls"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as named_file:
            named_file.write(data)
            named_file.flush()
            yield named_file.name


def _no_password() -> str:
    raise ValueError("the key has a password")


def _pem(config: str, name: str, value: str, files: list[str]) -> bytes:
    """The text itself, or the content of the file that it names, which is added to `files`."""
    if not value:
        raise ConfigError(f"{config}: {name} is missing. Give it in PEM, or the path of its file.")
    if "-----BEGIN" in value:
        return value.encode()
    path = os.path.join(os.path.dirname(os.path.abspath(config)), value)
    files.append(path)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"{config}: {name} is neither PEM nor the path of a file that can be read: {error}"
        ) from error
