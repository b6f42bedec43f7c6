"""Bystanders: other clients, whom an attack must not reach, and a watch over the server's memory.

    with bystanders(server) as others:
        send_the_attack()
        others.served(20)      # so many answers on each front, while it goes on

Each answer is checked, and has `WAIT` seconds to come: a thousand times what it takes, so that a
busy machine is no failure and a server that stands still is one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import requests
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving.running import Server, predict_request

WAIT = 5.0  # seconds
GROWTH = 96 * 2**20  # bytes that a server may have grown by while it was attacked
_PAUSE = 0.005  # between two questions of a bystander, which is no load itself
_SAMPLE = 0.05


class Bystanders:
    """One client a front. Each asks about numbers of its own and knows what the answers are."""

    pause = _PAUSE

    def __init__(self, server: Server, model: str, metadata: tuple[tuple[str, str], ...]) -> None:
        self._server = server
        self._model = model
        self._metadata = metadata
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self.answers = {"grpc": 0, "rest": 0}
        self.longest = 0.0  # seconds that an answer took
        self.problems: list[str] = []
        self._threads = [
            threading.Thread(target=self._repeat, args=(front, ask), name=f"bystander {front}")
            for front, ask in (("grpc", self._ask_grpc), ("rest", self._ask_rest))
        ]

    def served(self, count: int, front: str | None = None) -> None:
        """Wait for so many more answers on each front, or on one."""
        fronts = [front] if front else list(self.answers)
        with self._changed:
            wanted = {name: self.answers[name] + count for name in fronts}
            self._changed.wait_for(
                lambda: self.problems or all(self.answers[name] >= wanted[name] for name in fronts),
                timeout=count * WAIT,
            )
            assert not self.problems, self.problems[:3]
            assert all(self.answers[name] >= wanted[name] for name in fronts), self.answers

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self.served(3)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, front: str, ask: Callable[[float, float], float]) -> None:
        random_ = random.Random(front)
        with contextlib.closing(requests.Session()) as self._http:
            while not self._stop.is_set():
                a, b = random_.randrange(2**20), random_.randrange(2**20)
                asked = time.monotonic()
                try:
                    got = ask(float(a), float(b))
                    problem = "" if got == a + b else f"{front}: {a} + {b} is {got}"
                except Exception as error:
                    problem = f"{front}: {error!r}"[:500]
                self._note(front, time.monotonic() - asked, problem)
                time.sleep(self.pause)

    def _note(self, front: str, seconds: float, problem: str) -> None:
        with self._changed:
            self.longest = max(self.longest, seconds)
            if problem:
                self.problems.append(f"{problem} after {seconds:.2f} s")
            else:
                self.answers[front] += 1
            self._changed.notify_all()

    def _ask_rest(self, a: float, b: float) -> float:
        answer = self._http.post(
            self._server.url(f"/v1/models/{self._model}:predict"),
            json={"instances": [{"a": a, "b": b}]},
            headers=dict(self._metadata),
            timeout=WAIT,
        )
        answer.raise_for_status()
        return answer.json()["predictions"][0]["sum"]

    def _ask_grpc(self, a: float, b: float) -> float:
        if not hasattr(self, "_channel"):
            self._channel = grpc.insecure_channel(f"127.0.0.1:{self._server.port}")
            self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        request = predict_request(self._model, a=np.float32([a]), b=np.float32([b]))
        answer = self._stub.Predict(request, timeout=WAIT, metadata=self._metadata)
        return answer.outputs["sum"].float_val[0]

    def close(self) -> None:
        if hasattr(self, "_channel"):
            self._channel.close()


@contextlib.contextmanager
def bystanders(
    server: Server,
    *,
    model: str = "two_inputs",
    growth: int = GROWTH,
    metadata: tuple[tuple[str, str], ...] = (),
    loads_models: bool = False,
) -> Iterator[Bystanders]:
    """Others who ask while the block attacks. At its end the server must answer, be the same
    process with the same workers, and not have grown by more than `growth` at any moment. Where
    it loads models, the processes that try them come and go, and are bounded otherwise."""
    others = Bystanders(server, model, metadata)
    try:
        others.start()
        workers = serving(server.process.pid)
        with peak_memory(server.process.pid) as memory:
            yield others
            others.served(3)
        assert server.process.poll() is None, server.log.read_text()[-2000:]
        if not loads_models:
            assert workers <= serving(server.process.pid), server.log.read_text()[-2000:]
            assert memory.growth <= growth, f"grew by {memory.growth >> 20} MB"
    finally:
        others.stop()
        others.close()


class Memory:
    """What a process and its children hold, more than at the first look."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first = resident_bytes(pid)
        self.peak = self._first
        self.stop = threading.Event()

    def watch(self) -> None:
        while not self.stop.wait(_SAMPLE):
            self.peak = max(self.peak, resident_bytes(self._pid))

    @property
    def growth(self) -> int:
        return self.peak - self._first


@contextlib.contextmanager
def peak_memory(pid: int) -> Iterator[Memory]:
    memory = Memory(pid)
    thread = threading.Thread(target=memory.watch, name="memory watch")
    thread.start()
    try:
        yield memory
    finally:
        memory.stop.set()
        thread.join()
        memory.peak = max(memory.peak, resident_bytes(pid))


def resident_bytes(pid: int) -> int:
    total = 0
    for one in (pid, *children(pid)):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
            total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def serving(pid: int) -> set[int]:
    """Those of its children that serve. Others, which try versions or read large JSON, are short
    of life by design."""
    found: set[int] = set()
    for child in children(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found |= {child} if b"serve" in words else set()
    return found


def children(pid: int) -> set[int]:
    """The processes that a process has started, and those that they have."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        lists = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
        for child in map(int, itertools.chain.from_iterable(text.split() for text in lists)):
            found |= {child, *children(child)}
    return found
