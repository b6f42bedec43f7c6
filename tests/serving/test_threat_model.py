"""docs/serving.md: each line of the threat model names the tests that hold it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "serving.md"


def test_every_line_of_the_threat_model_has_its_test() -> None:
    part = DOCUMENT.read_text().partition("## Threat model")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`([\w/]+(?:\.py|/))`", row.split("|")[-2])
        assert named, row
        for name in named:
            assert (HERE / name).exists(), f"{name} of {row}"
