"""What the client says of certificates that it does not believe."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.serving import Client, Retries, ServerUnreachableError
from estimand.serving.client import rest as client_rest
from tests.serving.certificates import write_authority, write_certificate


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    write_authority(folder, "ca")
    write_authority(folder, "careless", careful=False)
    write_certificate(folder, "server")
    write_certificate(folder, "client")
    write_certificate(folder, "late", days=0)
    write_certificate(folder, "old", "careless")
    write_certificate(folder, "elsewhere", names="DNS:models.example")
    return folder


@contextlib.contextmanager
def shaking_hands(keys: Path, certificate: str | None, verify: bool = False) -> Iterator[int]:
    """A port where TLS is spoken, or, without a certificate, nothing that anybody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate:
        context.load_cert_chain(keys / f"{certificate}.crt", keys / f"{certificate}.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    if verify:
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # later ones tell it after the handshake
        context.load_verify_locations(keys / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                one, _ = listening.accept()
                with contextlib.suppress(OSError), one:
                    if certificate is None:
                        one.sendall(b"220 ready\r\n")
                        one.recv(65536)
                        continue
                    with context.wrap_socket(one, server_side=True) as secure:
                        secure.sendall(b"HTTP/1.1 404 \r\ncontent-length: 2\r\n\r\n{}")
                        secure.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening], daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def said(address: str, keys: Path, authority: str | None = "ca") -> str:
    trusted = {"ca_file": str(keys / f"{authority}.crt")} if authority else {}
    client = Client(address, retries=Retries(attempts=1), timeout=20, **trusted)
    with client, pytest.raises(ServerUnreachableError) as caught:
        client.models()
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_certificates_that_no_client_believes(keys: Path, scheme: str) -> None:
    with shaking_hands(keys, "late") as port:
        told = said(f"{scheme}://localhost:{port}", keys)
    assert "certificate has expired" in told
    assert told.endswith("The server's certificate is past its end: have it renewed.")
    with shaking_hands(keys, "server") as port:
        told = said(f"{scheme}://localhost:{port}", keys, "careless")
    assert told.endswith("give the authority's certificate (PEM) as ca_file=.")


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_a_certificate_for_another_name(keys: Path, scheme: str) -> None:
    with shaking_hands(keys, "elsewhere") as port:
        told = said(f"{scheme}://localhost:{port}", keys)
    assert "The certificate is for another name: connect to a name that" in told


def test_what_python_checks_strictly(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python 3.13 does by itself."""
    lenient = client_rest._tls_context

    def strict(security: object) -> ssl.SSLContext:
        context = lenient(security)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(client_rest, "_tls_context", strict)
    with shaking_hands(keys, "old") as port:
        told = said(f"https://localhost:{port}", keys, "careless")
    assert "CA cert does not include key usage extension" in told
    assert "breaks RFC 5280, which Python checks from version 3.13 on: have both issued" in told
    assert "keyUsage=critical,keyCertSign" in told


def test_a_server_that_asks_for_a_certificate(keys: Path) -> None:
    with shaking_hands(keys, "server", verify=True) as port:
        told = said(f"https://localhost:{port}", keys)
    assert told.endswith("signed by their custom_ca: give cert_file= and key_file=.")


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_a_port_without_tls(keys: Path, scheme: str) -> None:
    with shaking_hands(keys, None) as port:
        told = said(f"{scheme}://localhost:{port}", keys)
    assert "does not speak TLS at this port: write the address without https://" in told
