"""What `estimand serve DIR` makes of a directory, and what it says of one that has no versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.core.errors import ConfigError
from estimand.serving.flags import Flags
from estimand.serving.lifecycle import base_paths
from estimand.serving.lifecycle.config import from_flags


def export(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "saved_model.pb").touch()
    return path


@pytest.fixture
def census(tmp_path: Path) -> Path:
    """A model_dir with one export."""
    export(tmp_path / "census" / "export" / "best" / "1794")
    export(tmp_path / "census" / "export" / "best" / "1800")
    (tmp_path / "census" / "checkpoint").touch()
    return tmp_path / "census"


@pytest.mark.parametrize(
    ("below", "version"),
    [("", 0), ("export", 0), ("export/best", 0), ("export/best/1794", 1794)],
)
def test_all_ways_to_name_a_model_lead_to_its_versions(
    census: Path, below: str, version: int
) -> None:
    found = base_paths.find(str(census / below))
    base = str(census / "export" / "best")
    assert (found.name, found.base_path, found.version) == ("census", base, version)
    assert base in found.text


def test_folder_of_versions_gives_its_name(tmp_path: Path) -> None:
    export(tmp_path / "half" / "1")
    assert base_paths.find(str(tmp_path / "half")).name == "half"


def test_several_exports_are_listed_to_choose_from(census: Path) -> None:
    export(census / "export" / "final" / "1")
    with pytest.raises(ConfigError, match=r"several models(?s:.*)export/best\n.*export/final"):
        base_paths.find(str(census))


def test_directory_without_a_model_says_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    with pytest.raises(ConfigError, match=r"no exported model in .*; it has: checkpoint\. Export"):
        base_paths.find(str(tmp_path))


def test_model_without_a_number_is_told_how_to_get_one(tmp_path: Path) -> None:
    export(tmp_path / "mine")
    with pytest.raises(ConfigError, match=r"cp -r \S+/mine models/mine/1 && estimand serve"):
        base_paths.find(str(tmp_path / "mine"))


def test_one_version_of_the_flags_is_served_alone() -> None:
    settings = from_flags(Flags(model_name="m", model_base_path="/m", model_version=3))
    assert settings["m"].policy.choose({1, 3, 4}) == {3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port=99999"], "--port=99999 is no port. Use one from 1 to 65535"),
        (["--rest_api_port=99999"], "--rest_api_port=99999 is no port."),
        (["--model_base_path={census}"], "export/best is below: give {census}/export/best."),
        (
            ["--model_base_path={census}/export/best/1794"],
            "is itself a version. Give its parent, {census}/export/best.",
        ),
        (["{census}", "--model_base_path=x"], "Give DIRECTORY or --model_base_path, not both."),
        (["/nowhere/at/all"], "There is no directory /nowhere/at/all."),
        (
            ["{census}/checkpoint"],
            "{census}/checkpoint is a file. Give the directory of an exported model, or a "
            "model_dir with one. In {census} there are: export.",
        ),
        (
            ["{census}/.."],
            "{census}/.. is no model_dir, but has some. Give one:\n  estimand serve ",
        ),
        (
            ["{census}/export/bets"],
            "There is no directory {census}/export/bets. In {census}/export there are: best.",
        ),
    ],
)
def test_what_cannot_be_served_is_wrong_usage(
    census: Path, arguments: list[str], message: str
) -> None:
    given = [one.format(census=census) for one in arguments]
    if given[0].startswith(("--port", "--rest_api_port")):
        given.append(f"--model_base_path={census}/export/best")
    result = CliRunner().invoke(main, ["serve", *given])
    assert result.exit_code == 2
    assert message.format(census=census) in result.stderr
