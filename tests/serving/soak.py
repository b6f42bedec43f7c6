"""`make soak SOAK="--only server"`: a server for as long as asked, with everything at once.

Models of several kinds are asked on both fronts, and each answer is checked. Meanwhile versions
replace each other, some of them harmful, workers are killed, labels move, and attackers send bombs,
damaged input, requests that never end. What the server holds, and how long others wait, is written
to a CSV file every few seconds, and drawn if matplotlib is there.

It fails on a wrong answer, on one that is missing without a worker having been killed, and if
memory or descriptors grow.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import itertools
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import requests
import tensorflow as tf

from estimand.serving.lean import frames
from tests.serving import making
from tests.serving.attacks import hostile
from tests.serving.attacks.watching import GROWTH, WAIT, children, resident_bytes
from tests.serving.fuzz.sockets import Attack, TimedBystanders, part_of
from tests.serving.lean.fake import Raw
from tests.serving.running import Server, config_text, predict_request, workers_of

_SAMPLE_SECONDS = 5.0
_EXCUSED_SECONDS = 5.0  # after a worker was killed, its connections are gone
_MORE_DESCRIPTORS = 100
_WAKES = 0.05  # seconds between two looks at whether we are kept from the processor
_FLAGS = (
    "--num_workers=2",
    "--rest_api_max_values=2000000",
    "--max_request_bytes=67108864",
    "--rest_api_max_body_bytes=67108864",
    "--max_pending_bytes=67108864",
    "--rest_api_timeout_in_ms=20000",
    "--probe_timeout_seconds=10",
)
_PREDICT = "/tensorflow.serving.PredictionService/Predict"


class Others(TimedBystanders):
    """Who are told when a worker was killed."""

    is_killing = False
    killed = 0.0
    excused = 0

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.began = time.monotonic()
        self.doing: set[str] = set()
        self.late: list[float] = []  # by how many seconds a thread of ours woke too late

    def _note(self, front: str, seconds: float, problem: str) -> None:
        lost = "UNAVAILABLE" in problem or "Connection" in problem
        if lost and (self.is_killing or time.monotonic() - self.killed < _EXCUSED_SECONDS):
            self.excused += 1
            problem = ""
        if problem:
            at = time.monotonic()
            doing = ", ".join(sorted(self.doing)) or "nothing else"
            since = f"{at - self.killed:.1f} s after a worker was replaced"
            problem = f"at {at - self.began:.0f} s ({doing}; {since}) {problem}"
        super()._note(front, seconds, problem)

    def watch_ourselves(self, stop: threading.Event) -> None:
        """Whoever asks may be kept from the processor too: then nobody's answer is in time."""
        asked = time.monotonic()
        while not stop.wait(_WAKES):
            woke = time.monotonic()
            self.late.append(woke - asked - _WAKES)
            asked = woke

    def ask_version(self, stub, number: float) -> None:
        """Of a model that adds its own version: another's answer would show."""
        asked = time.monotonic()
        try:
            got = stub.Predict(predict_request("swapped", x=np.float32([number])), timeout=WAIT)
            right = got.outputs["y"].float_val[0] == number + got.model_spec.version.value
            problem = "" if right else f"swapped: {number} gave {got}"
        except grpc.RpcError as error:
            problem = f"swapped: {error.code()} {error.details()}"
        self._note("grpc", time.monotonic() - asked, problem)


class Soak:
    """`pace` is how fast all goes: with 0.2, five times slower."""

    def __init__(self, folder: Path, seed: int, pace: float = 1.0) -> None:
        self._folder = folder
        self._pace = pace
        self.random = random.Random(seed)
        self._made = folder / "made"
        self.base = folder / "models"
        for name in ("two_inputs", "types"):
            (self.base / name).mkdir(parents=True)
            getattr(making, f"write_{name}")(self.base / name / "1")
        hostile.write_harmful(self._made / "abort", "abort", "load")
        self.version = 0
        self.publish()
        self.served = {name: str(self.base / name) for name in ("two_inputs", "types", "swapped")}
        config = folder / "models.config"
        config.write_text(config_text(self.served))
        flags = (f"--model_config_file={config}", f"--request_log_dir={folder / 'logs'}")
        more = ("--request_log_sampling_rate=0.01",)
        self.server = Server(folder / "server.log", *flags, *more, *_FLAGS)
        self.server.wait_until(lambda: self.server.get("/readyz").ok, 600.0)
        self.others = Others(self.server)
        self.others.pause /= pace
        self.done: dict[str, int] = {}
        self._stop = threading.Event()

    # ------------------------------------------------------------ what goes on

    def publish(self) -> None:
        self.version += 1
        added = float(self.version)
        made = self._made / str(self.version)
        making.write_function(
            made, lambda x: {"y": x + added}, {"x": tf.TensorSpec([None], tf.float32)}
        )
        (self.base / "swapped").mkdir(exist_ok=True)
        made.rename(self.base / "swapped" / str(self.version))
        if self.version > 3:
            shutil.rmtree(self.base / "swapped" / str(self.version - 3), ignore_errors=True)

    def publish_harm(self) -> None:
        self.version += 1
        temporary = self.base / "temp"
        shutil.copytree(self._made / "abort", temporary)
        temporary.rename(self.base / "swapped" / str(self.version))

    def kill_a_worker(self) -> None:
        """And wait for the next one to answer: what else would be asked?"""
        before = self._answer_again()
        victim = self.random.choice(workers_of(self.server))
        self.others.is_killing = True
        os.kill(victim, signal.SIGKILL)
        self.server.wait_until(
            lambda: victim not in (now := workers_of(self.server)) and len(now) == 2
        )
        self.server.wait_until(lambda: self._answer_again() > before, 300.0)
        self.others.killed = time.monotonic()
        self.others.is_killing = False

    def _answer_again(self) -> int:
        """How many workers have taken the place of others."""
        return self.server.log.read_text(errors="replace").count("answers again")

    def send_bombs(self) -> None:
        url = self.server.url("/v1/models/two_inputs:predict")
        for part in (b"[[[]]],", b"1.5,", b'{"a":1},'):
            body = gzip.compress(b'{"instances": [' + part * 3_000_000 + b"1]}", 1)
            requests.post(url, body, headers={"content-encoding": "gzip"}, timeout=60)

    def send_much_of_nothing(self) -> None:
        """Requests that announce much, and stop; peers that vanish."""
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                raw = stack.enter_context(Raw(self.server.port))
                start = b"\0" + frames.pack_u32(2**25) + bytes(16_000)
                raw.send(raw.opening(1, path=_PREDICT), frames.frame(frames.DATA, 0, 1, start))
                address = ("127.0.0.1", self.server.rest_port)
                client = stack.enter_context(socket.create_connection(address, timeout=20))
                client.sendall(b"POST /v1/models/types:predict HTTP/1.1\r\ncontent-length: 999999")
            self._stop.wait(3.0)

    def reset_rapidly(self) -> None:
        with Raw(self.server.port) as raw:
            for stream in range(1, 4001, 2):
                raw.send(raw.call(stream, b"", path=_PREDICT), frames.reset(stream, 8))

    def send_damage(self) -> None:
        out = self._folder / "attack"
        out.mkdir(exist_ok=True)
        kinds = ("grpc", "http2", "http1", "json")
        seed = self.random.randrange(2**31)
        attack = Attack(
            self.server,
            kinds,
            10.0,
            out,
            served=self.served,
            seed=seed,
            per_second=max(1, round(200 * self._pace)),
        )
        for kind, one in attack.end().items():
            self.done[kind] = self.done.get(kind, 0) + one["made"]

    def ask_much(self) -> None:
        """Large requests that are right."""
        rows = [{"a": n, "b": 1} for n in range(60_000)]
        url = self.server.url("/v1/models/two_inputs:predict")
        answer = requests.post(url, json={"instances": rows}, timeout=60)
        if answer.status_code == 200 and answer.json()["predictions"][-1]["sum"] != len(rows):
            self.others.problems.append("a large request got a wrong answer")

    # ------------------------------------------------------------ running

    def _turns(self, acts: list[Callable[[], None]], pause: float) -> None:
        for act in itertools.cycle(acts):
            if self._stop.wait(pause / self._pace):
                return
            name = act.__name__
            self.others.doing.add(name)
            try:
                act()
                self.done[name] = self.done.get(name, 0) + 1
            except (requests.RequestException, OSError, AssertionError) as error:
                others = self.others
                if not others.is_killing and time.monotonic() - others.killed > _EXCUSED_SECONDS:
                    self.others.problems.append(f"{name}: {error!r}"[:300])
            finally:
                self.others.doing.discard(name)

    def _ask_versions(self) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{self.server.port}") as channel:
            from tensorflow_serving.apis import prediction_service_pb2_grpc

            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self._stop.wait(0.02 / self._pace):
                self.others.ask_version(stub, float(self.random.randrange(1000)))

    def run(self, seconds: float, table: Path) -> list[dict[str, float]]:
        changes = [self.publish, self.publish, self.publish_harm, self.publish, self.kill_a_worker]
        attacks = [self.send_bombs, self.send_much_of_nothing, self.reset_rapidly]
        threads = [
            threading.Thread(target=self._turns, args=(changes, 8.0)),
            threading.Thread(target=self._turns, args=([*attacks, self.ask_much], 1.0)),
            threading.Thread(target=self._turns, args=([self.send_damage], 1.0)),
            threading.Thread(target=self._ask_versions),
            threading.Thread(target=self.others.watch_ourselves, args=(self._stop,)),
        ]
        self.others.start()
        for thread in threads:
            thread.start()
        samples: list[dict[str, float]] = []
        began = time.monotonic()
        with table.open("w", newline="") as file:
            writer: csv.DictWriter | None = None
            while time.monotonic() - began < seconds and self.server.process.poll() is None:
                time.sleep(_SAMPLE_SECONDS)
                samples.append(self._sample(time.monotonic() - began))
                if writer is None:
                    writer = csv.DictWriter(file, samples[0].keys())
                    writer.writeheader()
                writer.writerow(samples[-1])
                file.flush()
        self._stop.set()
        for thread in threads:
            thread.join()
        self.others.stop()
        self.others.close()
        return samples

    def _sample(self, at: float) -> dict[str, float]:
        times = self.others.take()
        late, self.others.late = self.others.late, []
        pid = self.server.process.pid
        return {
            "seconds": round(at, 1),
            "mb": resident_bytes(pid) >> 20,
            "descriptors": sum(map(_descriptors, (pid, *children(pid)))),
            "answers": len(times),
            "half_ms": round(1000 * part_of(times, 0.5), 2),
            "most_ms": round(1000 * part_of(times, 0.99), 2),
            "longest_ms": round(1000 * part_of(times, 1.0), 1),
            "we_woke_late_ms": round(1000 * max(late, default=0.0), 1),
            "problems": len(self.others.problems),
        }


def _descriptors(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _middle(samples: list[dict[str, float]], key: str) -> float:
    """Of several samples, for children of all kinds come and go."""
    return part_of(sorted(one[key] for one in samples), 0.5)


def judged(soak: Soak, samples: list[dict[str, float]]) -> bool:
    third = max(1, len(samples) // 3)
    early, late = samples[third // 2 : third + 1], samples[-third:]
    is_alive = soak.server.process.poll() is None
    memory = [_middle(part, "mb") for part in (early, late)]
    descriptors = [_middle(part, "descriptors") for part in (early, late)]
    answers = sum(one["answers"] for one in samples)
    print(
        f"{samples[-1]['seconds'] / 60:.0f} minutes: {answers:,.0f} checked answers, "
        f"{len(soak.others.problems)} wrong or missing, {soak.others.excused} lost with workers "
        f"that were killed; the server {'goes on' if is_alive else 'HAS ENDED'}\n"
        f"memory {memory[0]:.0f} MB early, {memory[1]:.0f} MB late; descriptors "
        f"{descriptors[0]:.0f} and {descriptors[1]:.0f}\n"
        f"half of the answers within {_middle(samples, 'half_ms'):.1f} ms, 99 % within "
        f"{_middle(samples, 'most_ms'):.0f} ms, the longest "
        f"{max(one['longest_ms'] for one in samples):.0f} ms\n"
        f"done: {soak.done}"
    )
    for problem in soak.others.problems[:10]:
        print(f"  {problem}")
    return (
        is_alive
        and not soak.others.problems
        and memory[1] - memory[0] <= 2 * GROWTH >> 20
        and descriptors[1] - descriptors[0] <= _MORE_DESCRIPTORS
    )


def draw(samples: list[dict[str, float]], file: Path) -> None:
    try:
        from matplotlib import pyplot
    except ImportError:
        return
    _, axes = pyplot.subplots(3, 1, sharex=True, figsize=(9, 7))
    minutes = [one["seconds"] / 60 for one in samples]
    for axis, keys in zip(axes, (["mb"], ["descriptors"], ["half_ms", "most_ms"]), strict=True):
        for key in keys:
            axis.plot(minutes, [one[key] for one in samples], label=key)
        axis.legend()
    axes[-1].set_yscale("log")
    axes[-1].set_xlabel("minutes")
    pyplot.savefig(file)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=1.0, help="0.2: five times slower")
    parser.add_argument("--out", type=Path, help="a directory for the table, the plot and the log")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="soak-"))
    out.mkdir(parents=True, exist_ok=True)
    print(f"What is measured: {out / 'soak.csv'}", flush=True)
    soak = Soak(out, given.seed, given.pace)
    try:
        samples = soak.run(given.minutes * 60, out / "soak.csv")
        draw(samples, out / "soak.png")
        return 0 if judged(soak, samples) else 1
    finally:
        soak.server.stop()


if __name__ == "__main__":
    sys.exit(main())
