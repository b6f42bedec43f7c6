"""The programs in README.md run as they are printed there, and print what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
TIMES = "\N{MULTIPLICATION SIGN}"
README = (REPOSITORY / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, flags=re.M | re.S)


def matches(expected: str, printed: str) -> bool:
    """Whether it is what was printed; … stands for any text, such as the digits of a number."""
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS
    return checker.check_output(expected.replace("…", "..."), printed, flags)


@pytest.mark.slow
def test_programs_of_the_readme_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs, outputs = blocks("python"), blocks("output")
    assert len(programs) == len(outputs) == 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program, output in zip(programs, outputs, strict=True):
        exec(compile(program, "README.md", "exec"), names)
        printed = capsys.readouterr().out
        assert matches(output, printed), printed
    (exported,) = names["exports"]  # type: ignore[misc]
    assert Path(exported.decode(), "saved_model.pb").exists()


@pytest.mark.slow
def test_old_program_with_two_lines_more_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    from estimand.compat import install

    monkeypatch.chdir(tmp_path)
    (diff,) = blocks("diff")
    added = [line for line in diff.splitlines() if line.startswith("+")]
    assert len(added) == 2
    rows = {"x": [[1.0], [2.0], [3.0], [4.0]]}

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((rows, [0, 0, 1, 1])).repeat().batch(4)

    import estimand as est

    program = "\n".join(line[1:] for line in diff.splitlines()).replace("500", "5")
    names = {"columns": [est.feature_column.numeric_column("x")], "input_fn": input_fn}
    try:
        exec(compile(program, "README.md", "exec"), names)
    finally:
        install.uninstall()
    assert (tmp_path / "runs" / "old" / "model.ckpt-5.index").exists()


def test_figures_are_those_that_were_measured() -> None:
    measured = (REPOSITORY / "docs" / "performance.md").read_text()
    figures = re.findall(rf"\| ([\d.]+ {TIMES}) \|$", README, flags=re.M)
    assert len(figures) == 3
    for figure in figures:
        assert f"| {figure} [" in measured
    machine = "2026-11-18, 2 cores of an AMD EPYC with AVX-512"
    assert machine in measured and machine in README


def test_links_lead_to_what_there_is() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    inside = [link.partition("#")[0] for link in links if ":" not in link]
    assert len(inside) > 20
    assert [link for link in inside if not (REPOSITORY / link).exists()] == []


def test_pictures_are_small() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert len(pictures) >= 4
    assert all((REPOSITORY / picture).stat().st_size < 200_000 for picture in pictures)


def test_all_commands_are_named() -> None:
    from estimand.cli.main import ENTRIES

    line = next(one for one in README.splitlines() if one.startswith("[The command line]"))
    assert set(re.findall(r"`(?:estimand )?([a-z-]+)`", line)) == set(ENTRIES)
