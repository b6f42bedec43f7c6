"""The programs in README.md run as they are printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.slow
def test_programs_of_the_readme_learn_their_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", README.read_text(), flags=re.M | re.S)
    assert len(programs) == 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, str(README), "exec"), names)
    accuracies = re.findall(r"'accuracy': (?:np\.float32\()?([\d.]+)", capsys.readouterr().out)
    assert len(accuracies) == 2
    assert all(float(accuracy) > 0.95 for accuracy in accuracies)
    assert names["metrics"]["accuracy"] > 0.95  # type: ignore[index]
    (exported,) = names["exports"]  # type: ignore[misc]
    assert Path(exported.decode(), "saved_model.pb").exists()
