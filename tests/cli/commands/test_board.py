"""`estimand board`, before it comes to TensorBoard; what it shows is in tests/report/board."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.commands.board import _folder_of, _free_name, _start, _tell_of_profiles
from estimand.cli.main import main
from estimand.engine.events import EventWriter


def test_without_a_directory_it_says_what_to_type() -> None:
    result = CliRunner().invoke(main, ["board"])
    assert result.exit_code == 2 and "estimand board runs/census" in result.output


@pytest.mark.parametrize("words", ["city", "city=gone.txt", "=cities.txt"])
def test_words_that_are_no_name_and_file_are_refused(words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["board", str(tmp_path), "--words", words])
    assert result.exit_code == 2 and "--words city=cities.txt" in " ".join(result.output.split())


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a_2").mkdir()
    assert _free_name(str(tmp_path), "a") == str(tmp_path / "a_3")


def test_several_directories_are_put_under_one_by_their_names(tmp_path: Path) -> None:
    for name in ("old/a", "new/a"):
        (tmp_path / name).mkdir(parents=True)
    with _folder_of([str(tmp_path / "old/a"), str(tmp_path / "new/a")]) as folder:
        links = {link.name: link.resolve() for link in Path(folder).iterdir()}
    assert links == {"a": tmp_path / "old/a", "a_2": tmp_path / "new/a"}
    assert not Path(folder).exists()


@pytest.mark.filterwarnings("ignore:html5lib:DeprecationWarning")  # of TensorBoard itself
def test_server_that_cannot_start_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard import program

    monkeypatch.setattr(program.TensorBoard, "main", lambda self: -1)
    with pytest.raises(SystemExit) as ended:
        _start(str(tmp_path), "localhost", None)
    assert ended.value.code == 1


@pytest.mark.parametrize(("record", "told"), [("{}", True), ('{"params": {"units": 8}}', False)])
def test_runs_without_parameters_are_told(record: str, told: bool, tmp_path: Path) -> None:
    EventWriter.get(tmp_path).scalar("loss", 1.0, 1)
    EventWriter.get(tmp_path).close()
    (tmp_path / "estimand_run.json").write_text(record)
    result = CliRunner().invoke(main, ["board", str(tmp_path), "--only-write"])
    assert result.exit_code == 0 and ("HParams page stays empty" in result.output) == told


def test_profiles_that_would_not_be_seen_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a/plugins/profile").mkdir(parents=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    _tell_of_profiles([str(tmp_path / "a")], is_linked=False)
    assert "pip install 'estimand[profile]'" in capsys.readouterr().out
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    _tell_of_profiles([str(tmp_path / "a")], is_linked=False)
    assert capsys.readouterr().out == ""
    _tell_of_profiles([str(tmp_path / "a")], is_linked=True)
    assert f"estimand board {tmp_path}" in capsys.readouterr().out
