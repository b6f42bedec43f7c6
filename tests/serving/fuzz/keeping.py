"""From what fuzzing has found to the corpus: as few inputs as go all the ways that were gone.

`python -m tests.serving.fuzz.keeping KIND FOLDER --models=...`: the smallest first; one that goes
from a line to another that none before it went to is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import estimand.serving
from tests.serving.fuzz.changing import CORPUS

_LARGEST = 2048  # bytes that are kept
_CODE = str(Path(estimand.serving.__file__).parent)

Step = tuple[str, int, int]  # a file, and two lines that followed each other


def steps_of(target: Callable[[bytes], None], data: bytes) -> set[Step]:
    """The ways that an input goes through the server's code."""
    gone: set[Step] = set()

    def follow(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_CODE):
            return None
        last = frame.f_code.co_firstlineno

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                gone.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    sys.settrace(follow)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return gone


def main() -> None:
    from tests.serving.fuzz.targets import TARGETS
    from tests.serving.fuzz.world import World

    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(TARGETS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    given = parser.parse_args()
    target = TARGETS[given.kind](World(given.models))
    corpus = CORPUS / given.kind
    for file in sorted(corpus.iterdir()):  # once without looking, for what is done only once
        target(file.read_bytes())
    gone: set[Step] = set()
    for file in sorted(corpus.iterdir()):
        gone |= steps_of(target, file.read_bytes())
    for file in sorted(given.folder.iterdir(), key=lambda file: file.stat().st_size):
        data = file.read_bytes()
        if 0 < len(data) <= _LARGEST and (new := steps_of(target, data) - gone):
            gone |= new
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    print(f"  {given.kind}: {len(list(corpus.iterdir()))} inputs in the corpus, {len(gone)} steps")


if __name__ == "__main__":
    main()
