"""The cases of the gRPC services, once more, on the lean back end."""

from __future__ import annotations

from tests.serving.grpc.test_grpc import *  # noqa: F403
from tests.serving.running import Server


def test_the_server_under_test_is_the_lean_one(server: Server) -> None:
    assert server.process.args[-2] == "--grpc_backend=lean"
