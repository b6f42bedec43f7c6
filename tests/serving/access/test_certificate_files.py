"""When an SSLConfig and the files it names are read again."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from estimand.core.errors import ConfigError
from estimand.serving.access import certificates, tls
from estimand.serving.access.certificates import Certificates
from tests.serving.certificates import write_authority, write_certificate

CONFIG = 'server_key: "{0}.key" server_cert: "{0}.crt" custom_ca: "ca.crt" client_verify: {1}'


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    write_authority(folder, "ca")
    for name in ("first", "second"):
        write_certificate(folder, name)
    return folder


@pytest.fixture
def config(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(certificates, "_SECONDS_BETWEEN_LOOKS", 0.0)
    file = keys / "tls.pbtxt"
    file.write_text(CONFIG.format("first", "true"))
    return file


def test_nothing_is_read_while_nothing_changes(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Certificates(str(config))
    first = found.current()
    monkeypatch.setattr(certificates.TlsSettings, "read", lambda path: pytest.fail("read"))
    assert [found.current() for _ in range(3)] == [first] * 3


def test_a_configuration_that_names_other_files(config: Path, keys: Path) -> None:
    found = Certificates(str(config))
    config.write_text(CONFIG.format("second", "true"))
    assert found.current().certificate == (keys / "second.crt").read_bytes()
    assert found.current().files[1:] == tuple(
        str(keys / name) for name in ("second.key", "second.crt", "ca.crt")
    )


def test_what_cannot_be_used_is_told_once_and_tried_until_it_can(
    config: Path, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = Certificates(str(config))
    first = found.current()
    config.write_text(CONFIG.format("third", "true"))
    with caplog.at_level(logging.ERROR, "estimand.serving"):
        assert [found.current() for _ in range(3)] == [first] * 3
    (line,) = caplog.messages
    assert line.startswith("The certificates stay as they were: ")
    assert "server_key is neither PEM nor the path of a file that can be read" in line
    for kind in ("key", "crt"):  # the configuration itself does not change any more
        os.link(keys / f"second.{kind}", keys / f"third.{kind}")
    assert found.current().certificate == (keys / "second.crt").read_bytes()


def test_whether_clients_are_verified_does_not_change_while_the_server_runs(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = Certificates(str(config))
    config.write_text(CONFIG.format("first", "false"))
    with caplog.at_level(logging.ERROR, "estimand.serving"):
        assert found.current().verify_clients
    assert "client_verify has changed, which needs a restart of the server." in caplog.text


def test_what_cannot_be_used_at_the_start_is_an_error(config: Path) -> None:
    config.write_text(CONFIG.format("nobody", "true"))
    with pytest.raises(ConfigError, match="server_key is neither PEM nor the path"):
        Certificates(str(config))


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory")
def test_a_full_disk_keeps_no_certificate_from_being_read(
    config: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tls.tempfile, "NamedTemporaryFile", full)
    assert Certificates(str(config)).current().certificate == (keys / "first.crt").read_bytes()
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ConfigError, match=r"cannot be used: .*No space left on device"):
        Certificates(str(config))
