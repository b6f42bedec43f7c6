"""The sockets of a server with workers: opened by the process that watches them, handed to each."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from dataclasses import dataclass

from estimand.core.errors import ConfigError
from estimand.serving.flags import Flags


@dataclass(frozen=True)
class Sockets:
    """What the workers are handed. `held` only keeps a port from others."""

    grpc: socket.socket | None = None
    grpc_unix: socket.socket | None = None
    rest: socket.socket | None = None
    held: socket.socket | None = None

    def close(self) -> None:
        for bound in (self.grpc, self.grpc_unix, self.rest, self.held):
            if bound is not None:
                bound.close()


def open_sockets(flags: Flags) -> Sockets:
    grpc = unix = rest = held = None
    try:
        if flags.port and flags.is_lean:
            grpc = _bound(flags.host, flags.port)
        elif flags.port:
            held = _bound(flags.host, flags.port, each_opens_its_own=True)
        if flags.grpc_socket_path:
            unix = _bound_at(flags.grpc_socket_path)
        if flags.rest_api_port:
            rest = _bound(flags.host, flags.rest_api_port)
    except OSError as error:
        Sockets(grpc, unix, rest, held).close()
        raise ConfigError(
            f"Cannot listen on {flags.host}: {error}; is another server there? Set another "
            "--port or --rest_api_port."
        ) from error
    return Sockets(grpc, unix, rest, held)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bound(host: str, port: int, *, each_opens_its_own: bool = False) -> socket.socket:
    """Not listening: the first worker that can answer will. Until then clients are refused, and
    need not wait; and nobody else gets the port."""
    if each_opens_its_own:
        _bound(host, port).close()  # tells whether it is free
    bound = socket.socket(_family(host))
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if each_opens_its_own:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _bound_at(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)  # of a server that was killed
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(path)
    except OSError:
        bound.close()
        raise
    return bound
