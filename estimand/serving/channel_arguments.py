"""gRPC's channel arguments, and which of them the lean back end knows.

>>> list(pairs("grpc.max_concurrent_streams=9, grpc.http2.bdp_probe=0"))
[('grpc.max_concurrent_streams', '9'), ('grpc.http2.bdp_probe', '0')]
>>> are_all_known("grpc.max_concurrent_streams=9"), are_all_known("grpc.http2.bdp_probe=0")
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator

COMPRESSION = "grpc.default_compression_algorithm"
# The names of the limits that they set, and what a number is to be multiplied with.
LIMITS: dict[str, tuple[str, float]] = {
    "grpc.max_receive_message_length": ("message_bytes", 1),
    "grpc.max_concurrent_streams": ("streams", 1),
    "grpc.max_metadata_size": ("header_bytes", 1),
    "grpc.max_connection_idle_ms": ("idle_seconds", 1e-3),
    "grpc.max_connection_age_ms": ("age_seconds", 1e-3),
    "grpc.max_connection_age_grace_ms": ("age_grace_seconds", 1e-3),
    "grpc.keepalive_time_ms": ("keepalive_seconds", 1e-3),
    "grpc.keepalive_timeout_ms": ("keepalive_timeout_seconds", 1e-3),
    "grpc.http2.min_ping_interval_without_data_ms": ("ping_interval_seconds", 1e-3),
    "grpc.http2.min_recv_ping_interval_without_data_ms": ("ping_interval_seconds", 1e-3),
    "grpc.http2.max_ping_strikes": ("ping_strikes", 1),
}


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Those of --grpc_channel_arguments."""
    for argument in filter(None, text.split(",")):
        key, _, value = argument.partition("=")
        yield key.strip(), value.strip()


def is_known(key: str, value: str) -> bool:
    return key == COMPRESSION or (key in LIMITS and value.isdecimal())


def are_all_known(text: str) -> bool:
    return all(is_known(key, value) for key, value in pairs(text))
