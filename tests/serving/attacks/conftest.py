"""Servers to attack, with bounds small enough to be reached quickly.

`make test` attacks the front that serves by default; `make attacks` each of them, and workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import making
from tests.serving.running import Server, config_text

FRONTS = {
    "lean": ("--grpc_backend=lean",),
    "grpcio": ("--grpc_backend=grpcio",),
    "workers": ("--grpc_backend=lean", "--num_workers=2"),
}
ATTACKED = list(FRONTS) if os.environ.get("ESTIMAND_ATTACKS") == "all" else ["lean"]
# Small enough that a test gets there, and large enough for what bystanders ask.
BOUNDS = (
    "--max_request_bytes=67108864",
    "--max_pending_bytes=33554432",
    "--rest_api_max_body_bytes=67108864",
    "--rest_api_max_values=2000000",
    "--rest_api_timeout_in_ms=20000",
    "--rest_api_header_timeout_seconds=1",
)


@pytest.fixture(scope="session")
def attacked_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("attacked")
    for name in ("slow", "two_inputs", "types"):
        (base / name).mkdir()
        getattr(making, f"write_{name}")(base / name / "1")
    return base


@pytest.fixture(scope="session", params=ATTACKED)
def attacked(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of each front, for attacks that leave it as it was."""
    folder = tmp_path_factory.mktemp(request.param)
    config = folder / "models.config"
    names = sorted(path.name for path in attacked_models.iterdir())
    config.write_text(config_text({name: str(attacked_models / name) for name in names}))
    flags = (f"--model_config_file={config}", *FRONTS[request.param], *BOUNDS)
    running = Server(folder / "log", *flags)
    running.front = request.param
    try:
        running.wait_until_ready()
        yield running
    finally:
        ended = running.stop()
    assert ended == 0
