"""HTTP/2 that is written to cost: floods, and headers that become large, from several peers.

What a single connection is told is tested in `lean/test_hostile.py`; here it is what others, and
the server's memory, notice of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from estimand.serving.lean import frames
from estimand.serving.lean.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    SETTINGS,
    frame,
)
from tests.serving.attacks.test_large_requests import PREDICT
from tests.serving.attacks.watching import bystanders
from tests.serving.lean.fake import Raw
from tests.serving.running import Server, predict_request

PEERS = 4
ROUNDS = 2  # connections of each peer, one after the other
PATIENCE = 1.0  # seconds with a server that neither reads nor says anything
# A header of 4 KB goes into the table; a byte each names it again.
TABLE_ENTRY = b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000
AGAIN = b"\xbe"


def hpack_bomb(raw: Raw) -> Iterator[bytes]:
    for stream in range(1, 201, 2):
        yield frame(HEADERS, END_HEADERS, stream, TABLE_ENTRY + AGAIN * 10_000)


def hpack_bomb_in_pieces(raw: Raw) -> Iterator[bytes]:
    """Each block is within its bound, and becomes 60 MB."""
    for stream in range(1, 201, 2):
        yield frame(HEADERS, 0, stream, TABLE_ENTRY)
        yield frame(CONTINUATION, END_HEADERS, stream, AGAIN * 15_000)


def table_churn(raw: Raw) -> Iterator[bytes]:
    """Entries that push each other out of the table."""
    for stream in range(1, 2001, 2):
        yield frame(HEADERS, END_HEADERS, stream, TABLE_ENTRY * 3)


def table_sizes(raw: Raw) -> Iterator[bytes]:
    for stream in range(1, 2001, 2):
        yield frame(HEADERS, END_HEADERS, stream, b"\x20\x3f\xe1\x1f" * 1000)


def continuations(raw: Raw) -> Iterator[bytes]:
    yield raw.opening(1, flags=0, path=PREDICT)
    for _ in range(5000):
        yield frame(CONTINUATION, 0, 1, b"\0\x01a\x01b" * 3000)


def empty_continuations(raw: Raw) -> Iterator[bytes]:
    yield raw.opening(1, flags=0, path=PREDICT)
    for _ in range(300):
        yield frame(CONTINUATION, 0, 1) * 1000


def pings(raw: Raw) -> Iterator[bytes]:
    for _ in range(300):
        yield frame(PING, 0, 0, bytes(8)) * 1000


def settings(raw: Raw) -> Iterator[bytes]:
    for size in range(300):
        yield frames.settings({4: 65_535 + size, 5: 16_384 + size}) * 1000


def acknowledgements(raw: Raw) -> Iterator[bytes]:
    for _ in range(300):
        yield frame(SETTINGS, ACK, 0) * 1000


def rapid_resets(raw: Raw) -> Iterator[bytes]:
    slow = predict_request("slow", x=np.float32([1.0])).SerializeToString()
    for stream in range(1, 20_001, 2):
        yield raw.call(stream, slow, path=PREDICT) + frames.reset(stream, frames.Code.CANCEL)


def many_small_requests(raw: Raw) -> Iterator[bytes]:
    """Thousands in each packet, and each is answered."""
    for stream in range(1, 20_001, 2):
        yield raw.call(stream, b"", path=PREDICT)


def resets_that_we_send(raw: Raw) -> Iterator[bytes]:
    """Streams that are spoilt, so that it is us who take them back."""
    for stream in range(1, 20_001, 2):
        spoilt = frames.window_update(stream, 0)
        yield raw.opening(stream, path=PREDICT) + spoilt


def refused_streams(raw: Raw) -> Iterator[bytes]:
    """Requests that are refused by their headers, and never end."""
    for stream in range(1, 20_001, 2):
        yield raw.opening(stream, path=PREDICT, **{"content-type": "text/plain"})


def empty_data(raw: Raw) -> Iterator[bytes]:
    yield raw.opening(1, path=PREDICT)
    for _ in range(300):
        yield frame(DATA, 0, 1) * 1000


def windows(raw: Raw) -> Iterator[bytes]:
    for _ in range(300):
        yield frames.window_update(0, 1) * 1000


def unread_answers(raw: Raw) -> Iterator[bytes]:
    """Questions whose answers are never read."""
    for stream in range(1, 60_001, 2):
        yield raw.opening(stream, path="/grpc.health.v1.Health/Check") + frame(
            DATA, END_STREAM, stream, bytes(5)
        )


ATTACKS: dict[str, Callable[[Raw], Iterator[bytes]]] = {
    attack.__name__: attack
    for attack in (
        hpack_bomb,
        hpack_bomb_in_pieces,
        table_churn,
        table_sizes,
        continuations,
        empty_continuations,
        pings,
        settings,
        acknowledgements,
        rapid_resets,
        many_small_requests,
        resets_that_we_send,
        refused_streams,
        empty_data,
        windows,
        unread_answers,
    )
}


def send_until_closed(server: Server, data: bytes, reads: bool = True) -> None:
    """All of it, on one connection after the other, until the server closes or says no more."""
    for _ in range(ROUNDS):
        with contextlib.suppress(OSError), Raw(server.port) as raw:
            if reads:
                reader = threading.Thread(target=read_all, args=(raw,))
                reader.start()
            raw.socket.settimeout(PATIENCE)
            raw.socket.sendall(data)
            if reads:
                reader.join()


def read_all(raw: Raw) -> None:
    with contextlib.suppress(OSError):
        raw.socket.settimeout(PATIENCE)
        while raw.socket.recv(1 << 20):
            pass


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", ATTACKS)
def test_a_flood_is_nobody_elses_business(attacked: Server, case: str) -> None:
    if attacked.front == "grpcio":
        pytest.skip("what bounds there are is that library's affair")
    with Raw(attacked.port) as raw:  # whose encoder begins as that of every connection does
        data = b"".join(ATTACKS[case](raw))  # before: others need the processor
    senders = [
        threading.Thread(target=send_until_closed, args=(attacked, data, case != "unread_answers"))
        for _ in range(PEERS)
    ]
    with bystanders(attacked) as others:
        for sender in senders:
            sender.start()
        others.served(10)
        for sender in senders:
            sender.join()
        others.served(3)
