"""Fuzzes one target without sockets: `python -m tests.serving.fuzz.inside KIND`.

With atheris, inputs that reach code no other has reached are kept and changed further; without it,
those of the corpus are changed at random. What happens is written to a file every second, because
libFuzzer ends the process its own way.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.serving.fuzz.changing import CORPUS, MOST_BYTES, changed, corpus_of

MOST_SECONDS = 2.0  # of processor time for one input
_MOST_GROWTH = 128 * 2**20  # bytes, from a third of the time to its end


class Watch:
    """Calls a target, and keeps figures and what was found."""

    def __init__(self, kind: str, call: Callable[[bytes], None], out: Path, seconds: float) -> None:
        self._kind = kind
        self._call = call
        self._out = out
        self._seconds = seconds
        self._started = self._written = time.monotonic()
        self.figures: dict[str, Any] = {
            "kind": kind, "inputs": 0, "slowest_ms": 0.0, "slowest_bytes": 0, "findings": 0,
            "early_mb": 0, "mb": 0, "guided": "atheris" in sys.modules,
        }  # fmt: skip

    def __call__(self, data: bytes) -> None:
        if not data:
            return
        before = time.thread_time()
        try:
            self._call(bytes(data))
        except Exception:
            self._found(data, traceback.format_exc())
        taken = time.thread_time() - before
        figures = self.figures
        figures["inputs"] += 1
        if taken * 1000 > figures["slowest_ms"] and figures["inputs"] > 100:  # not the first ones
            figures["slowest_ms"], figures["slowest_bytes"] = round(taken * 1000, 1), len(data)
            if taken > MOST_SECONDS:
                self._found(data, f"{len(data)} bytes took {taken:.1f} s of processor time\n")
        if time.monotonic() - self._written > 1.0:
            self.write()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._started > self._seconds

    def write(self) -> None:
        self._written = time.monotonic()
        figures, passed = self.figures, self._written - self._started
        figures["mb"] = _resident_bytes() >> 20
        if passed < self._seconds / 3 or not figures["early_mb"]:
            figures["early_mb"] = figures["mb"]
        figures["seconds"] = round(passed, 1)
        figures["grew"] = (figures["mb"] - figures["early_mb"]) << 20 > _MOST_GROWTH
        new = self._out.with_suffix(".new")
        new.write_text(json.dumps(figures))
        os.replace(new, self._out)

    def _found(self, data: bytes, text: str) -> None:
        self.figures["findings"] += 1
        if self.figures["findings"] > 20:
            return
        name = hashlib.sha256(data).hexdigest()[:16]
        folder = self._out.parent / "findings" / self._kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        print(f"{self._kind}: {folder / name}\n{text}", file=sys.stderr, flush=True)
        self.write()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        import atheris
    except ImportError:
        atheris = None
    if atheris is None:
        run_at_random(given)
    else:
        run_guided(given, atheris)


def _target(given: argparse.Namespace) -> Callable[[bytes], None]:
    from tests.serving.fuzz.targets import TARGETS
    from tests.serving.fuzz.world import World

    return TARGETS[given.kind](World(given.models))


def run_at_random(given: argparse.Namespace) -> None:
    watch = Watch(given.kind, _target(given), given.out, given.seconds)
    random_ = random.Random(given.seed)
    corpus = corpus_of(given.kind)
    for body in corpus:
        watch(body)
    while not watch.is_over:
        watch(changed(corpus, random_))
    watch.write()


def run_guided(given: argparse.Namespace, atheris: Any) -> None:
    with atheris.instrument_imports(
        include=["estimand.serving", "hpack"], enable_loader_override=False
    ):
        target = _target(given)
    watch = Watch(given.kind, target, given.out, given.seconds)
    found = given.out.parent / "corpus" / given.kind  # what this run adds
    found.mkdir(parents=True, exist_ok=True)
    folders = [str(found), str(CORPUS / given.kind)]
    options = [
        f"-max_total_time={int(given.seconds)}",
        f"-max_len={MOST_BYTES}",
        f"-seed={given.seed + 1}",
        "-rss_limit_mb=8192",
        "-timeout=120",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup([sys.argv[0], *options, *folders], watch)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
