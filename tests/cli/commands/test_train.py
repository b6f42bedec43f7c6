"""`estimand train`, and how the errors of a program are told by it and by `eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.cli.programs import may_bind
from tests.estimator.lifecycle import line

PROGRAM = """
import sys
from tests.estimator.lifecycle import line
import estimand as est

ARGUMENTS = sys.argv[1:]

def make_experiment(model_dir={model_dir!r}, steps=6):
    print("arguments", ARGUMENTS)
    return (
        line.estimator(model_dir),
        est.TrainSpec(line.train_input_fn, max_steps=steps),
        line.eval_spec(),
    )

def old_experiment():
    return est.Experiment(
        line.estimator({model_dir!r}), line.train_input_fn, line.eval_input_fn, train_steps=6,
        eval_steps=None)

def only_evaluated():
    return line.estimator({model_dir!r}), line.eval_spec()

def broken():
    return helper()

def helper():
    return 1 // 0

def refused():
    return est.RunConfig(save_checkpoints_steps=-1)

constant = 7
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(model_dir=str(tmp_path / "model")))
    return str(path)


def run(*arguments: str, verbose: bool = False) -> Any:
    return CliRunner().invoke(main, [*(["--verbose"] if verbose else []), *arguments])


def test_trains_evaluates_and_hands_arguments_on(program: str) -> None:
    result = run("train", program, "--set", "steps=3", "--", "--data", "x.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("arguments ['--data', 'x.csv']\nstep 3\n")
    assert f"{line.loss_after(3):.4g}" in result.stdout


def test_goes_on_where_it_was_and_eval_takes_the_same_settings(
    program: str, tmp_path: Path
) -> None:
    other = f"model_dir={tmp_path}/other"
    run("train", program, "--set", "steps=3", "--set", other)
    assert "\nstep 6\n" in run("train", program, "--set", other).stdout
    assert "\nstep 6\n" in run("eval", program, "--set", other).stdout
    assert not (tmp_path / "model").exists()


def test_experiment_of_old_programs(program: str) -> None:
    assert run("train", f"{program}:old_experiment").stdout.startswith("step 6\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{program}:only_evaluated"], "gives no TrainSpec, so that it can only be evaluated"),
        (["{program}:constant"], "gives 7, but has to be an est.Experiment"),
        (["{program}:constant", "--set", "a=1"], "is no function, so that there is nothing to set"),
        (["{program}", "--set", "stebs=1"], "Did you mean 'steps'?"),
        (["{folder}/progam.py"], "There is no file '{folder}/progam.py'. In {folder} there are: "),
        (["no_such_module"], "There is no module 'no_such_module'."),
        (["{folder}"], "is no Python file."),
        (["{program}", "--config", "{folder}/no.toml"], "does not exist"),
    ],
)
def test_wrong_usage(program: str, arguments: list[str], message: str) -> None:
    names = {"program": program, "folder": str(Path(program).parent)}
    result = run("train", *(one.format(**names) for one in arguments))
    assert result.exit_code == 2, result.output
    assert message.format(**names) in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["train", "eval"])
def test_exception_of_a_program_is_shown_with_its_own_lines(program: str, command: str) -> None:
    result = run(command, f"{program}:broken")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    frames = [one for one in lines if one.startswith("  File ")]
    assert len(frames) == 2 and all(program in one for one in frames)
    assert "ZeroDivisionError: integer division or modulo by zero" in lines
    assert lines[-1].endswith("frames of packages left out; estimand --verbose shows them)")


def test_error_on_purpose_is_told_with_the_line_that_caused_it(program: str) -> None:
    result = run("train", f"{program}:refused")
    assert result.exit_code == 1
    assert "in refused" in result.stderr and "save_checkpoints_steps" in result.stderr
    assert "estimand/core" not in result.stderr


@pytest.mark.parametrize("verb", ["train", "eval"])
def test_a_plain_script_is_not_run(verb: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = "def main():\n    experiment = 1\nopen('was_run', 'w').close()\nmain()\n"
    Path("script.py").write_text(script)
    result = run(verb, "script.py")
    assert result.exit_code == 2
    pair = "" if verb == "train" else " (estimator, eval_spec),"
    assert result.stderr.splitlines()[-1] == (
        "Error: script.py has no experiment or make_experiment. Let it have an est.Experiment, "
        f"(estimator, train_spec, eval_spec),{pair} or a function that returns one of these, "
        "called experiment or make_experiment; or say what it is called: script.py:NAME. A script "
        "that trains by itself is run by python script.py (estimand run script.py, if it uses "
        "tf.estimator)."
    )
    assert not Path("was_run").exists()


@pytest.mark.parametrize(
    "source",
    [
        "from other import *",
        "from other import make as experiment",
        "if True:\n    experiment = 1",
        "def set():\n    global experiment",
        "globals()['experiment'] = 1",
        "def __getattr__(name): ...",
        "no python",
    ],
)
def test_what_may_have_the_name_is_run(source: str) -> None:
    assert may_bind(source.encode(), ["experiment"])
