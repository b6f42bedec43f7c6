"""The programs in docs/inputs.md run as they are printed there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.reading import batches, call

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "inputs.md"


def test_programs_of_the_document_run_and_read_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    programs = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), flags=re.M | re.S)
    assert len(programs) == 7
    for program in programs:
        exec(compile(program, str(DOCUMENT), "exec"), names)
    printed = capsys.readouterr().out
    assert "[31 47] [b'Rome' b'Oslo'] [20.5 35. ]" in printed
    assert "('day', 'night')" in printed
    assert [labels for _, labels in batches(call(names["reviews"], mode="eval"))] == [[0, 1], [1]]
    photos = names["photos"]
    assert [labels for _, labels in batches(call(photos, mode="eval"))] == [[0, 1]]
    assert len(batches(call(photos, mode="train"), 3)) == 3
    assert batches(call(names["read"], mode="eval"))[0] == ({"x": [1.0, 2.0]}, [2.0, 4.0])
