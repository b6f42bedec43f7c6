"""One set of models and one server for all tests that change nothing, and servers to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serving import making
from tests.serving.running import Server, config_text


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("models")
    making.write_half_plus(base / "half_plus_two" / "00000123", 2.0)
    making.write_half_plus(base / "half_plus_three" / "1", 3.0)
    for name, write in {
        "two_heads": making.write_two_heads,
        "two_inputs": making.write_two_inputs,
        "types": making.write_types,
        "bytes": making.write_bytes,
        "batch_mean": making.write_batch_mean,
        "slow": making.write_slow,
        "classifier": making.write_classifier,
        "sparse": making.write_sparse,
    }.items():
        (base / name).mkdir()
        write(base / name / "1")
    (base / "broken" / "1").mkdir(parents=True)
    (base / "broken" / "1" / "saved_model.pb").write_bytes(b"\x08\x96no model")
    return base


@pytest.fixture(scope="session")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with all the models, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    names = [path.name for path in models.iterdir()]
    config.write_text(config_text({name: str(models / name) for name in sorted(names)}))
    running = Server(
        folder / "log",
        f"--model_config_file={config}",
        "--model_base_path=/nowhere",  # not looked at, as the images of TensorFlow Serving have it
        "--max_num_load_retries=0",
        "--rest_api_enable_cors_support",
        "--rest_api_max_body_bytes=1000000",
        "--num_load_threads=2",
        "--grpc_backend=grpcio",  # tests/serving/lean has the same cases for the other one
        f"--grpc_socket_path={folder / 'socket'}",
    )
    running.socket = folder / "socket"
    try:
        running.wait_until_open()
        for name in names:
            if name != "broken":
                running.wait_until(lambda name=name: running.get(f"/v1/models/{name}").ok)
                number = 123 if name == "half_plus_two" else 1
                running.wait_for_version(name, number)
        yield running
    finally:
        running.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that end with the test."""
    started: list[Server] = []

    def start(*flags: str) -> Server:
        started.append(Server(tmp_path / f"server{len(started)}.log", *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop()
