"""What is said at the start: where the server is, who can reach it, what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimand.serving.flags import Flags, automatic_workers, thread_count
from estimand.serving.lifecycle.config import base_paths


def address_lines(flags: Flags, settings: Mapping[str, Any] | None = None) -> list[str]:
    """Where the server is, who can reach it, and what they can have it load.

    >>> for line in address_lines(Flags(rest_api_port=8501)):
    ...     print(line)
    gRPC: 127.0.0.1:8500
    REST: http://127.0.0.1:8501/v1/models/NAME
    Page: http://127.0.0.1:8501/
    Reload by gRPC: models from the base paths of the start. For others:
    --reload_config_base_path=DIR
    Only this machine can connect. For others: --host=0.0.0.0
    """
    tls = " (TLS)" if flags.ssl_config_file else ""
    lines = [f"gRPC: {address}{tls}" for address in grpc_addresses(flags)]
    if flags.rest_api_port:
        scheme = "https" if flags.rest_api_ssl_config_file else "http"
        host = f"[{flags.host}]" if ":" in flags.host else flags.host
        name = next(iter(settings)) if settings and len(settings) == 1 else "NAME"
        lines.append(f"REST: {scheme}://{host}:{flags.rest_api_port}/v1/models/{name}")
        lines.append(f"Page: {scheme}://{host}:{flags.rest_api_port}/")
    if flags.enable_reload_config_rpc and grpc_addresses(flags):
        lines.append(_reload_line(flags, settings or {}))
    if flags.host in ("127.0.0.1", "localhost", "::1"):
        return [*lines, "Only this machine can connect. For others: --host=0.0.0.0"]
    if flags.port and not flags.is_lean:
        lines.append(
            "gRPC is served by grpcio, which some floods of HTTP/2 stall for everybody. Against "
            "peers that you do not know: --grpc_backend=lean"
        )
    plain = [
        name
        for name, is_open, file in (
            ("gRPC", flags.port, flags.ssl_config_file),
            ("REST", flags.rest_api_port, flags.rest_api_ssl_config_file),
        )
        if is_open and not file
    ]
    if flags.auth_tokens_file and plain:
        lines.append(f"Tokens cross the network in clear text over {' and '.join(plain)}: no TLS.")
    elif plain:
        lines.append(
            f"Whoever reaches this machine can use {' and '.join(plain)}. To ask for tokens: "
            "--auth_tokens_file; for TLS: --ssl_config_file, --rest_api_ssl_config_file"
        )
    return lines


def _reload_line(flags: Flags, settings: Mapping[str, Any]) -> str:
    start = "Reload by gRPC: models from"
    if flags.auth_tokens_file:
        return f"{start} any directory, by whoever has a token"
    named = base_paths(settings) or {"the base paths of the start"}
    paths = sorted({*named, *flags.reload_config_base_path})
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    return f"{start} {shown}. For others: --reload_config_base_path=DIR"


def grpc_addresses(flags: Flags) -> list[str]:
    addresses = []
    if flags.port:
        host = f"[{flags.host}]" if ":" in flags.host else flags.host
        addresses.append(f"{host}:{flags.port}")
    if flags.grpc_socket_path:
        addresses.append(f"unix:{flags.grpc_socket_path}")
    return addresses


def processes_line(flags: Flags) -> str:
    """How many processes answer, and why.

    >>> processes_line(Flags(num_workers=3)).partition(" on ")[0]
    '3 processes'
    """
    cores = f"{thread_count(0)} core{'' if thread_count(0) == 1 else 's'}"
    if flags.num_workers > 1:
        return f"{flags.num_workers} processes on {cores}, each with its own copy of the models."
    more = automatic_workers(flags)
    if more == 1:
        return f"1 process on {cores}: more would cost each request more than they gain here."
    return (
        f"1 process on {cores}, of which Python uses one at a time. For {more}, each with its own "
        "copy of the models: --num_workers=0"
    )
