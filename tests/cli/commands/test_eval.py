"""`estimand eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from tests.estimator.lifecycle import line

PROGRAM = """
from tests.estimator.lifecycle import line
import estimand as est

def experiment():
    return line.estimator({model_dir!r}), line.eval_spec()

def several():
    return line.estimator({model_dir!r}), [line.eval_spec(name="a"), line.eval_spec(name="b")]

as_experiment = est.Experiment(
    line.estimator({model_dir!r}), line.train_input_fn, line.eval_input_fn, eval_steps=None)
nothing = 7
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    model_dir = tmp_path / "model"
    line.estimator(model_dir).train(line.train_input_fn, max_steps=6)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(model_dir=str(model_dir)))
    return str(path)


def run(*arguments: str) -> Any:
    # No quiet start: pytest has already taken standard error away.
    return CliRunner().invoke(main, ["--verbose", "eval", *arguments])


def test_newest_checkpoint(program: str) -> None:
    result = run(program)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("step 6\n")
    assert f"{line.loss_after(6):.4g}" in result.output


def test_all_that_are_left_and_then_none(program: str) -> None:
    run(program)
    result = run(program, "--all")
    titles = [text for text in result.output.splitlines() if text.startswith("step ")]
    assert titles == ["step 0", "step 3"]
    assert run(program, "--all").stdout == "All checkpoints have results already.\n"
    assert "step 6" in run(program, "--all", "--again").output


def test_given_checkpoint_steps_and_name(program: str, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "model" / "model.ckpt-3")
    result = run(program, "--checkpoint", checkpoint, "--steps", "1", "--name", "first")
    assert result.stdout.startswith("step 3\n")
    assert line.evaluated_steps(line.estimator(tmp_path / "model"), "first") == [3]


def test_experiment_and_several_specs(program: str) -> None:
    assert run(f"{program}:as_experiment").stdout.startswith("step 6\n")
    result = run(f"{program}:several")
    assert "step 6 (a)" in result.output and "step 6 (b)" in result.output
    assert "step 6 (a)" not in run(f"{program}:several", "--name", "b").output


@pytest.mark.parametrize(
    ("suffix", "options", "message"),
    [
        (":missing", [], "has no 'missing'. Let it have an est.Experiment"),
        (":nothing", [], "gives 7, but has to be an est.Experiment"),
        (":several", ["--name", "c"], "no EvalSpec of the name 'c'; it has: a, b"),
        ("", ["--all", "--checkpoint", "x"], "exclude each other"),
        ("", ["--again"], "--again goes with --all"),
    ],
)
def test_usage_errors(program: str, suffix: str, options: list[str], message: str) -> None:
    result = run(program + suffix, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("where", ["no_such_file.py", "no_such_module"])
def test_program_that_is_not_there(where: str) -> None:
    result = run(where)
    assert result.exit_code == 2
    assert "There is no" in result.output


def test_a_model_that_is_not_trained(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    line.estimator(tmp_path / "runs" / "type").train(line.train_input_fn, max_steps=6)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(model_dir=str(tmp_path / "runs" / "typo")))
    result = run(str(path))
    assert result.exit_code == 2  # there is nothing under that name
    assert result.output.splitlines()[-1] == (
        "Error: The model is not trained. runs/typo does not exist; runs/type has model.ckpt-6. "
        "Train it first, or name a checkpoint: --checkpoint=PATH."
    )
