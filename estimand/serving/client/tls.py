"""Why a server's certificate is not believed, in words that say what to do about it."""

from __future__ import annotations

# What OpenSSL (REST) and BoringSSL (gRPC) say, and the way out; the first that is found holds.
_WAYS_OUT = (
    (
        ("expired",),
        "The server's certificate is past its end: have it renewed, and restart the server.",
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
        ("certificate required", "handshake failure", "unknown ca", "bad certificate", "eof occur"),
        "The server broke it off, as those do that ask for a client's certificate, signed by "
        "their custom_ca: give cert_file= and key_file=.",
    ),
    (
        ("wrong version number", "wrong_version_number", "http request"),
        "The server does not speak TLS at this port: write the address without https:// or "
        "grpcs://, and leave out tls=True.",
    ),
)


def way_out(text: str) -> str:
    """What to do about a failed handshake; empty if nothing is known of it.

    >>> way_out("certificate verify failed: certificate has expired (_ssl.c:1006)")
    "The server's certificate is past its end: have it renewed, and restart the server."
    >>> way_out("no shared cipher")
    ''
    """
    said = text.lower()
    for marks, way in _WAYS_OUT:
        if any(mark in said for mark in marks):
            return way
    return ""
