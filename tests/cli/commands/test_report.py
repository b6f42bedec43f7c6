"""`estimand report`, before it comes to the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.commands import report
from estimand.cli.main import main


def test_missing_extra_is_told_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda name: None if name == "jinja2" else object())
    monkeypatch.setattr(report, "quiet_start", None)  # nothing of TensorFlow is reached
    result = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert result.exit_code == 1
    assert "needs 'jinja2'" in result.output and "pip install 'estimand[report]'" in result.output
    assert "Traceback" not in result.output and "frames" not in result.output
