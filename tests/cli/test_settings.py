"""Settings of a program: files, --set, and the arguments of its function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

import estimand as est
from estimand.cli import settings


def make(model_dir: str = "runs", params: Any = {"units": 8, "rate": 0.1}, steps: int = 10) -> Any:  # noqa: B006
    return model_dir, params, steps


def test_values_are_read_as_toml_or_json_and_else_are_text() -> None:
    given = ["a=1", "b=0.5", "c=true", "d=[8, 4]", "e=runs/x", "f=null", 'g="7"', "h=None"]
    assert settings.gather([], given) == {
        "a": 1, "b": 0.5, "c": True, "d": [8, 4], "e": "runs/x", "f": None, "g": "7", "h": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("big.toml", "steps = 5\n[params]\nunits = 64\n"),
        ("big.json", json.dumps({"steps": 5, "params": {"units": 64}})),
        ("big.yaml", "steps: 5\nparams:\n  units: 64\n"),
    ],
)
def test_command_line_goes_before_files_and_files_before_defaults(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    given = settings.gather([str(tmp_path / name)], ["params.units=16"])
    expected = ("runs", {"units": 16, "rate": 0.1}, 5)
    assert settings.call(make, given, "make") == expected
    assert make() == ("runs", {"units": 8, "rate": 0.1}, 10)  # the default is as it was


def test_hparams_and_run_config_are_made_of_settings() -> None:
    def learn(run_config: Any, hparams: Any = est.HParams(units=8)) -> Any:  # noqa: B008
        return run_config, hparams

    given = settings.gather([], ["run_config.model_dir=runs/a", "hparams.units=4"])
    config, hparams = settings.call(learn, given, "learn")
    assert (config.model_dir, hparams.units) == ("runs/a", 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["stebs=3"], "make has no argument 'stebs'; it has: model_dir, params, steps. Did you"),
        (["params.unit=3"], "no setting 'params.unit'; .*Did you mean 'params.units'"),
        (["units"], "'units' is not NAME=VALUE, such as params.units=64"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(given: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        settings.call(make, settings.gather([], given), "make")


def test_argument_without_a_value_is_asked_for() -> None:
    with pytest.raises(click.UsageError, match=r"Add --set path=\.\.\. --set config.model_dir="):
        settings.call(lambda path, config: None, {}, "make")


@pytest.mark.parametrize("text", ["steps = ", "[1, 2]"])
def test_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("a.toml" if "=" in text else "a.json")
    path.write_text(text)
    with pytest.raises(click.BadParameter, match=f"{path} cannot be used"):
        settings.gather([str(path)], [])
