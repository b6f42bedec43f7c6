"""The pages of the documentation site, and the blocks of code in them."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=fence)[ ]*$",
    flags=re.M | re.S,
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code: its kind (`python`, `output`, `json` … or nothing), and where it stands.

    `not_run` says why it cannot be run here, as a comment before the block tells:
    `<!-- not run: needs Kubernetes -->`. What needs a package is run where that is installed.
    """

    kind: str
    text: str
    line: int
    not_run: str | None = None

    @property
    def runs_here(self) -> bool:
        if self.not_run is None:
            return True
        package = self.not_run.removeprefix("needs ")
        return package.isidentifier() and importlib.util.find_spec(package) is not None


def pages() -> list[Path]:
    return sorted(page for page in DOCS.rglob("*.md") if "tools" not in page.parts)


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            kind=match["kind"].strip(),
            text=match["text"],
            line=text.count("\n", 0, match.start("text")) + 1,
            not_run=match["reason"],
        )
        for match in _FENCE.finditer(text)
    ]


def programs(page: Path) -> list[tuple[Block, str | None]]:
    """Python blocks that can be run, each with the output that the page prints right below it."""
    found = blocks(page)
    pairs = itertools.zip_longest(found, found[1:])
    return [
        (block, below.text if below is not None and below.kind == "output" else None)
        for block, below in pairs
        if block.kind == "python" and block.runs_here
    ]
