"""How much of everything a peer may ask for.

>>> Limits.of(Flags(grpc_channel_arguments="grpc.max_connection_age_ms=2000")).age_seconds
2.0
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from estimand.serving import channel_arguments
from estimand.serving.access.connection_limits import MOST
from estimand.serving.flags import Flags

log = logging.getLogger("estimand.serving")


@dataclass(frozen=True)
class Limits:
    # Requests
    message_bytes: int = 2**31 - 1
    streams: int = 1000  # at a time on one connection
    header_bytes: int = 16_384  # of one request, as HTTP/2 counts them
    block_bytes: int = 32_768  # the same, compressed; more ends the connection
    pending_bytes: int = 512 * 2**20  # large requests until they are answered, of all peers
    connections: int = MOST  # of one address
    early_answers: int = 100  # refusals of one connection that wait for the ends of their requests
    early_answer_bytes: int = 32_768  # of each request that are passed over meanwhile
    window: int = 16 * 2**20  # what a connection may send before we have read it

    # A peer that does not read
    unsent_bytes: int = 64 * 2**20  # answers that wait for its windows; more requests are refused

    # Time
    greeting_seconds: float = 10.0  # to begin with HTTP/2
    frame_seconds: float = 30.0  # from the first byte of a frame, or of headers, to the last
    request_seconds: float = 60.0  # in which a part of a request must arrive, and this much of it
    bytes_per_second: int = 1024  # on the average
    answer_seconds: float = 120.0  # in which a part of an answer must be taken
    close_seconds: float = 5.0  # to take the last bytes
    early_answer_seconds: float = 0.2  # that a refusal waits for the end of its request
    idle_seconds: float = float("inf")  # without a call, until the connection is ended
    age_seconds: float = float("inf")  # of a connection, until it is ended
    age_grace_seconds: float = float("inf")  # for its calls to end, then
    keepalive_seconds: float = 120.0  # of silence until we ask whether the peer is there
    keepalive_timeout_seconds: float = 20.0

    # Frames that cost us something and bring no request
    ping_interval_seconds: float = 300.0  # between two pings, if we have sent nothing
    ping_strikes: int = 2
    idle_frames: int = 10_000  # so many at once, and a fifth of it each second
    idle_frames_per_stream: int = 8  # those that come with a stream
    resets: int = 5000  # calls that the peer takes back: so many at once, a fifth each second

    compress: bool = False  # answers, for clients that read gzip

    @classmethod
    def of(cls, flags: Flags) -> Limits:
        """The flags' limits. Of gRPC's channel arguments, those that mean something here."""
        limits = cls(message_bytes=flags.max_request_bytes, pending_bytes=flags.max_pending_bytes)
        for key, value in channel_arguments.pairs(flags.grpc_channel_arguments):
            if key == channel_arguments.COMPRESSION:
                limits = replace(limits, compress=value == "2")
            elif channel_arguments.is_known(key, value):
                name, factor = channel_arguments.LIMITS[key]
                number: Any = int(value) if factor == 1 else int(value) * factor
                limits = replace(limits, **{name: number})
            else:
                log.warning("--grpc_channel_arguments: %s means nothing to the lean back end", key)
        return limits
