"""The process that probes are forked from: it has imported TensorFlow, and done nothing else.

It reads calls as JSON lines from a socket, as a `WorkerConnection` sends them, and answers with how
a child of its own fared with a version. It ends, and its children with it, when the server is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from estimand.serving.flags import Flags
from estimand.serving.probing import bounds, trial
from estimand.serving.probing.verdicts import Verdict

_SECONDS_TO_END = 5.0  # for a child that has closed its end
_MOST_WAITING = 5.0  # times what it has: so much longer it may take on a busy machine
_SMALL_WAIT = 0.05  # seconds that make no difference


@dataclass
class _Probe:
    number: int  # of the call
    name: str
    child: int
    seconds: float
    began: float
    ends: float
    limit: int  # bytes
    answer: bytes = b""


def serve(connection: socket.socket, flags: Flags) -> None:
    """Until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    probes: dict[int, _Probe] = {}
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(_time_left(probes)):
                if key.fileobj is connection:
                    data = connection.recv(65536)
                    if not data:
                        _kill(probes)
                        return
                    *lines, received = (received + data).split(b"\n")
                    for message in map(json.loads, lines):
                        if message["call"] == "probe":
                            _begin(message, flags, connection, selector, probes)
                        else:
                            _take_back(message, connection, probes)
                elif more := os.read(key.fd, 65536):
                    probes[key.fd].answer += more
                else:
                    _end(key.fd, connection, selector, probes, is_late=False)
            for descriptor, probe in list(probes.items()):
                if time.monotonic() >= probe.ends and not _is_given_more(probe):
                    _end(descriptor, connection, selector, probes, is_late=True)


def _is_given_more(probe: _Probe) -> bool:
    """A probe comes after requests: what it spent waiting for them is no fault of its version."""
    waited = bounds.seconds_without_processor(probe.child)
    ends = probe.began + probe.seconds + min(waited, _MOST_WAITING * probe.seconds)
    is_later = ends > probe.ends + _SMALL_WAIT
    probe.ends = max(ends, probe.ends)
    return is_later


def _time_left(probes: dict[int, _Probe]) -> float | None:
    if not probes:
        return None
    left = min(probe.ends for probe in probes.values()) - time.monotonic()
    return max(0.0, min(left, 3600.0))


def _kill(probes: dict[int, _Probe]) -> None:
    for probe in probes.values():
        os.kill(probe.child, signal.SIGKILL)


def _begin(
    message: dict[str, Any],
    flags: Flags,
    connection: socket.socket,
    selector: selectors.BaseSelector,
    probes: dict[int, _Probe],
) -> None:
    ours, theirs = os.pipe()
    limit = flags.probe_max_bytes or bounds.memory_to_give()
    child = os.fork()
    if child == 0:
        os.close(ours)
        connection.close()
        selector.close()
        for descriptor in probes:
            os.close(descriptor)
        _be_a_probe(theirs, limit, flags, message["value"])
    os.close(theirs)
    seconds = flags.probe_timeout_seconds or float("inf")
    name = message["value"]["name"]
    now = time.monotonic()
    probes[ours] = _Probe(message["number"], name, child, seconds, now, now + seconds, limit)
    selector.register(ours, selectors.EVENT_READ)


def _be_a_probe(end: int, limit: int, flags: Flags, value: dict[str, Any]) -> None:
    """Never returns."""
    try:
        bounds.be_harmless(limit, value["hurry"])
        asked = (value["platform"], value["path"], value["single_threaded"])
        verdict = trial.run(flags, *asked, limit)
        os.write(end, json.dumps(None if verdict is None else asdict(verdict)).encode())
    finally:
        os._exit(0)


def _end(
    descriptor: int,
    connection: socket.socket,
    selector: selectors.BaseSelector,
    probes: dict[int, _Probe],
    is_late: bool,
) -> None:
    probe = probes.pop(descriptor)
    selector.unregister(descriptor)
    os.close(descriptor)
    status, used = _reap(probe.child, at_once=is_late)
    value: Any = None
    try:
        value = json.loads(probe.answer)  # complete, or it was not written to its end
    except ValueError:
        value = asdict(_how_it_ended(probe, status, used, is_late))
    _answer(connection, probe.number, value)


def _take_back(
    message: dict[str, Any], connection: socket.socket, probes: dict[int, _Probe]
) -> None:
    """Nobody wants to know any more."""
    for probe in probes.values():
        if probe.name == message["value"]:
            os.kill(probe.child, signal.SIGKILL)
    _answer(connection, message["number"], None)


def _answer(connection: socket.socket, number: int, value: Any) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps({"number": number, "value": value}).encode() + b"\n")


def _reap(child: int, at_once: bool) -> tuple[int, int]:
    """Its status and the most memory that it had."""
    ends = time.monotonic() + (0.0 if at_once else _SECONDS_TO_END)
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return status, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        if time.monotonic() >= ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def _how_it_ended(probe: _Probe, status: int, used: int, is_late: bool) -> Verdict:
    megabytes = f"{used / 2**20:,.0f} MB"
    if is_late:
        return Verdict(
            code="DEADLINE_EXCEEDED", text=f"was not done after {probe.seconds:g} seconds"
        )
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.strsignal(number) or "unknown"
        bound = f"it had used {megabytes} of {probe.limit / 2**20:,.0f} MB that it might have"
        return Verdict(code="ABORTED", text=f"was ended by signal {number} ({name}); {bound}")
    return Verdict(code="ABORTED", text=f"ended with exit code {os.WEXITSTATUS(status)}")


def main() -> None:
    """`python -m estimand.serving.probing.host SOCKET FLAGS`, where the server cannot be forked."""
    given: dict[str, Any] = json.loads(sys.argv[2])
    given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    flags = Flags(**given)
    import tensorflow  # noqa: F401

    serve(socket.socket(fileno=int(sys.argv[1])), flags)


if __name__ == "__main__":
    main()
