"""The same models as for the other back end, on a server with the lean one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.running import Server, config_text


@pytest.fixture(scope="session")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("lean")
    config = folder / "models.config"
    names = sorted(path.name for path in models.iterdir())
    config.write_text(config_text({name: str(models / name) for name in names}))
    running = Server(
        folder / "log",
        f"--model_config_file={config}",
        "--max_num_load_retries=0",
        "--num_load_threads=2",
        "--grpc_backend=lean",
        f"--grpc_socket_path={folder / 'socket'}",
    )
    running.socket = folder / "socket"
    try:
        running.wait_until_open()
        for name in names:
            if name != "broken":
                running.wait_for_version(name, 123 if name == "half_plus_two" else 1)
        yield running
    finally:
        ended = running.stop()
    assert ended == 0
