"""The programs in docs/keras.md run as they are printed there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "keras.md"


@pytest.mark.slow
def test_programs_of_the_document_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    programs = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), flags=re.M | re.S)
    assert len(programs) == 3
    for program in programs:
        exec(compile(program, str(DOCUMENT), "exec"), names)
    assert "(256, 3)" in capsys.readouterr().out
    tuned, head_only = names["tuned"], names["head_only"]
    first = names["estimator"]
    for name in ("hidden/kernel", "norm/moving_mean"):
        assert (first.get_variable_value(name) == tuned.get_variable_value(name)).all()
    assert (
        first.get_variable_value("logits/bias") != tuned.get_variable_value("logits/bias")
    ).all()
    assert (head_only.get_variable_value("base/kernel") == names["source"].get_weights()[0]).all()
