"""Why a certificate is not believed, in words that say what to do about it."""

from __future__ import annotations

import contextlib
import ssl

from estimand.serving.client.address import Security

_BROKEN_OFF = (
    "The server broke it off, as those do that ask for a client's certificate, signed by their "
    "custom_ca: give cert_file= and key_file=."
)
# What OpenSSL (REST) and BoringSSL (gRPC) say, and the way out; the first that is found holds.
_WAYS_OUT = (
    (
        ("alert certificate expired", "alert_certificate_expired"),
        _BROKEN_OFF,
    ),
    (
        ("expired",),
        "The server's certificate is past its end: have it renewed.",
    ),
    (
        ("not yet valid",),
        "The server's certificate is not valid yet: compare the clocks of both machines.",
    ),
    (
        ("hostname", "ip address mismatch", "not in peer certificate", "not valid for"),
        "The certificate is for another name: connect to a name that its subjectAltName has, or "
        "have it issued for this one.",
    ),
    (
        # Python 3.13 and newer hold a certificate to RFC 5280 (ssl.VERIFY_X509_STRICT).
        (
            *("key usage", "keycertsign", "key identifier", "basic constraints", "path length"),
            *("alternative name", "alt name", "name empty", "x509v3", "invalid ca certificate"),
        ),
        "A certificate of the server or of its authority breaks RFC 5280, which Python checks "
        "from version 3.13 on: have both issued anew, the authority's with basicConstraints="
        "critical,CA:TRUE, keyUsage=critical,keyCertSign and subjectKeyIdentifier=hash, the "
        "server's with authorityKeyIdentifier=keyid.",
    ),
    (
        ("self-signed", "self signed", "issuer certificate", "first certificate", "unable to get"),
        "No authority that this client knows has signed the server's certificate: give the "
        "authority's certificate (PEM) as ca_file=.",
    ),
    (
        # With TLS 1.3 it does so after the handshake, and its alert is often lost.
        (
            *("certificate required", "handshake failure", "unknown ca", "bad certificate"),
            *("eof occur", "socket closed", "connection reset", "broken pipe", "remote end closed"),
        ),
        _BROKEN_OFF,
    ),
    (
        ("wrong version number", "wrong_version_number", "http request"),
        "The server does not speak TLS at this port: write the address without https:// or "
        "grpcs://, and leave out tls=True.",
    ),
)


def way_out(text: str, security: Security) -> str:
    """What to do about a failed handshake; empty if nothing is known of it.

    >>> way_out("certificate verify failed: certificate has expired (_ssl.c:1006)", Security())
    "The server's certificate is past its end: have it renewed."
    >>> way_out("no shared cipher", Security())
    ''
    """
    said = text.lower()
    for marks, way in _WAYS_OUT:
        if any(mark in said for mark in marks):
            return (way is _BROKEN_OFF and _own_fault(security)) or way
    return ""


def _own_fault(security: Security) -> str:
    """What is wrong with the client's own certificate: no server's words can be relied on."""
    if security.cert_file is None:
        return ""
    certificate = f"This client's certificate, {security.cert_file},"
    try:
        _shake_hands_with_itself(security)
    except ssl.SSLCertVerificationError as error:
        if "expired" in error.verify_message:
            return f"{certificate} is past its end: have it renewed."
        if "not yet valid" in error.verify_message:
            return f"{certificate} is not valid yet: compare the clocks of both machines."
    except OSError:  # ssl.SSLError is one: another matter
        pass
    return (
        f"The server broke it off, as those do that do not believe a client's certificate: give "
        f"one that its custom_ca has signed, or have that authority added. ({security.cert_file})"
    )


def _shake_hands_with_itself(security: Security) -> None:
    """In memory, with a server that believes this one certificate, if it is within its time."""
    assert security.cert_file is not None
    server, client = (
        ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
    )
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    server.load_verify_locations(security.cert_file)
    for context in (server, client):
        context.load_cert_chain(security.cert_file, security.key_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, True))
    for _ in range(3):  # flights of a handshake, in each direction
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
