"""Where a server is, and how to reach it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from estimand.core.errors import ConfigError

_PORTS = {"grpc": 8500, "rest": 8501}
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?|grpcs?)://)?(?P<host>\[[0-9a-fA-F:.%]+\]|[^/:\[\]\s]+)"
    r"(?::(?P<port>\d{1,5}))?(?P<prefix>/[^\s?#]*)?"
)


@dataclass(frozen=True)
class Security:
    """TLS and who we are."""

    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:  # the key is nobody's business
        return f"Security(tls={self.tls}, api_key={'...' if self.api_key else None})"

    @property
    def bearer(self) -> str | None:
        return f"Bearer {self.api_key}" if self.api_key else None

    def check(self) -> Security:
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError(
                f"cert_file={self.cert_file!r}, key_file={self.key_file!r}: a certificate of the "
                "client needs both."
            )
        if not self.tls and (self.ca_file or self.cert_file):
            raise ConfigError(
                "ca_file and cert_file are for TLS, which is off. Say tls=True, or write the "
                "address with https:// or grpcs://."
            )
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigError("The API key has characters that cannot be sent; is it whole?")
        return self


@dataclass(frozen=True)
class Address:
    protocol: str  # grpc or rest
    tls: bool
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def parse(cls, text: str, protocol: str | None = None, tls: bool | None = None) -> Address:
        """From `host:port`, or a URL, which tells the protocol.

        >>> Address.parse("localhost:8500")
        Address(protocol='grpc', tls=False, host='localhost', port=8500, prefix='')
        >>> Address.parse("https://models.example").protocol
        'rest'
        """
        if protocol not in (None, "grpc", "rest"):
            raise ConfigError(f"protocol={protocol!r} is unknown. Use 'grpc' or 'rest'.")
        if text.startswith("unix:"):
            if protocol == "rest":
                raise ConfigError(f"{text!r}: a UNIX socket is for gRPC. Leave out the protocol.")
            return cls("grpc", bool(tls), text, 0)
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or int(match["port"] or 1) not in range(1, 65536):
            raise ConfigError(
                f"{text!r} is no address. Write HOST:PORT, such as localhost:8500 for gRPC, or "
                "http://HOST:PORT, such as http://localhost:8501 for REST."
            )
        scheme = match["scheme"] or ""
        told = {"h": "rest", "g": "grpc"}.get(scheme[:1])
        if told and protocol and told != protocol:
            raise ConfigError(
                f"{text!r} is an address of {told}, but protocol={protocol!r} was given. Leave "
                "one of the two out."
            )
        prefix = (match["prefix"] or "").rstrip("/")
        protocol = protocol or told or "grpc"
        if prefix and protocol == "grpc":
            raise ConfigError(f"{text!r}: gRPC has no path {prefix!r}. Write HOST:PORT.")
        secure = scheme in ("https", "grpcs") if tls is None else tls
        port = int(match["port"] or 0) or _default_port(scheme, protocol)
        return cls(protocol, secure, match["host"].strip("[]"), port, prefix)

    @property
    def target(self) -> str:
        """As gRPC takes it."""
        if self.host.startswith("unix:"):
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.protocol == "grpc":
            return self.target
        return f"http{'s' * self.tls}://{self.target}{self.prefix}"


def _default_port(scheme: str, protocol: str) -> int:
    return {"http": 80, "https": 443}.get(scheme) or _PORTS[protocol]
