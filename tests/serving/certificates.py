"""Certificates as a careful authority issues them, and as a careless one did.

Python 3.13 and newer hold them to RFC 5280: an authority says what its key is for.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_CAREFUL = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
_OF_A_PEER = """\
subjectAltName={names}
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


def write_authority(folder: Path, name: str, *, careful: bool = True) -> None:
    """`name`.crt and .key; a careless one does not say that its key signs certificates."""
    files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
    more = _CAREFUL if careful else ()
    _openssl(folder, "req", "-x509", *_NEW_KEY, *files, *more, "-days", "2", "-subj", f"/CN={name}")


def write_certificate(
    folder: Path,
    name: str,
    authority: str = "ca",
    *,
    days: int = 2,
    names: str = "DNS:localhost,IP:127.0.0.1",
) -> None:
    """`name`.crt and .key, signed by the authority. With 0 days it has expired."""
    (folder / "extensions").write_text(_OF_A_PEER.format(names=names))
    _openssl(
        folder,
        *("req", "-new", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr"),
        *("-subj", f"/CN={name}"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", "-days", str(days)),
        *("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial"),
        *("-extfile", "extensions"),
    )


def _openssl(folder: Path, *arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the openssl program to make certificates")
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)
