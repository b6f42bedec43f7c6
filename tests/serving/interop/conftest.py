"""Servers with the lean back end, and clients of other makers that call them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.certificates import write_authority, write_certificate
from tests.serving.interop.callers import NAMES, Caller, command_of
from tests.serving.running import Server, config_text

TOKEN = "0123456789abcdef"
_SERVED = ("two_inputs", "bytes", "slow")


@pytest.fixture(scope="session", params=NAMES)
def caller(
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> Caller:
    cache = Path(pytestconfig.cache.mkdir("interop"))
    command = command_of(request.param, cache)
    return Caller(request.param, command, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    write_authority(folder, "ca")
    write_certificate(folder, "server")
    (folder / "tls.pbtxt").write_text('server_key: "server.key"\nserver_cert: "server.crt"\n')
    return folder


# ---------------------------------------------------------------- servers


@contextlib.contextmanager
def running(models: Path, folder: Path, *flags: str) -> Iterator[Server]:
    config = folder / "models.config"
    config.write_text(config_text({name: str(models / name) for name in _SERVED}))
    where = (f"--model_config_file={config}", f"--grpc_socket_path={folder / 'socket'}")
    server = Server(folder / "log", *where, "--grpc_backend=lean", *flags)
    server.socket = folder / "socket"
    try:
        server.wait_until_ready()
        yield server
    finally:
        assert server.stop() == 0


@pytest.fixture(scope="session")
def plain(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(models, tmp_path_factory.mktemp("plain")) as server:
        yield server


@pytest.fixture(scope="session")
def secure(models: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flag = f"--ssl_config_file={keys / 'tls.pbtxt'}"
    with running(models, tmp_path_factory.mktemp("tls"), flag) as server:
        yield server


@pytest.fixture(scope="session")
def guarded(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(TOKEN)
    with running(models, folder, f"--auth_tokens_file={folder / 'tokens'}") as server:
        yield server


@pytest.fixture(scope="session")
def eager(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Compresses its answers, takes pings at any time and more metadata."""
    arguments = "grpc.default_compression_algorithm=2,grpc.max_metadata_size=65536"
    arguments += ",grpc.http2.min_recv_ping_interval_without_data_ms=20"
    flag = f"--grpc_channel_arguments={arguments}"
    with running(models, tmp_path_factory.mktemp("eager"), flag) as server:
        yield server


@pytest.fixture(scope="session")
def impatient(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ends connections after 150 ms."""
    flag = "--grpc_channel_arguments=grpc.max_connection_age_ms=150"
    with running(models, tmp_path_factory.mktemp("impatient"), flag) as server:
        yield server
