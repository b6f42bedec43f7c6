"""`estimand launch` with programs that do without TensorFlow, and so take no time."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.cluster.description import Task
from estimand.cluster.output import Labels, Lines

PATIENCE = 120.0  # seconds; what is waited for comes at once, unless the machine is busy

# Does what its role is told on the command line: "role:index=action", several in a row.
PROGRAM = """
import json, os, subprocess, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
me = f"{task['type']}:{task['index']}"
print("begins", flush=True)
for rule in sys.argv[1:]:
    who, _, action = rule.partition("=")
    if who != me:
        continue
    verb, _, argument = action.partition(" ")
    if verb == "sleep":
        time.sleep(float(argument))
    elif verb == "exit":
        print("about to end", flush=True)
        sys.exit(int(argument))
    elif verb == "fail-once":  # when the others have begun
        path, _, others = argument.partition(" ")
        if not os.path.exists(path):
            while len(os.listdir(os.path.dirname(path))) < int(others):
                time.sleep(0.01)
            open(path, "w").close()
            sys.exit(7)
    elif verb == "sign":  # in a folder, that it has come so far
        open(os.path.join(argument, me), "w").close()
    elif verb == "await-signs":
        folder, _, signs = argument.partition(" ")
        while len(os.listdir(folder)) < int(signs):
            time.sleep(0.01)
    elif verb == "stay-once":
        if not os.path.exists(argument):
            open(argument + me, "w").close()
            time.sleep(100)
    elif verb == "spawn":  # leaves a process behind
        child = subprocess.Popen(["sleep", "100"])
        open(argument, "w").write(str(child.pid))
    elif verb == "stubborn":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("stubborn", flush=True)
        time.sleep(100)
print("ends", flush=True)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def command(program: str, *options: str, rules: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, "-m", "estimand", "launch", *options, program, *rules]


def launch(program: str, *options: str, rules: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    done = subprocess.run(
        command(program, *options, rules=rules), capture_output=True, text=True, timeout=PATIENCE
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


@contextlib.contextmanager
def launched(program: str, *options: str, rules: tuple[str, ...]) -> Iterator[Any]:
    """A launcher that runs meanwhile."""
    process = subprocess.Popen(
        command(program, *options, rules=rules), stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: Any, *wanted: str) -> None:
    """Read its output until each of the lines has come."""
    missing = set(wanted)
    while missing:
        line = process.stdout.readline()
        assert line, f"ended without {missing}"
        missing.discard(line.rstrip("\n"))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


# ------------------------------------------------------------------ the good end


def test_every_role_runs_and_its_lines_say_whose_they_are(program: str) -> None:
    code, lines = launch(program, "--workers", "2", "--ps", "1", "--evaluator")
    assert code == 0
    assert sorted(lines) == sorted(
        f"{label:<12}{verb}"
        for label in ("[chief]", "[worker 0]", "[worker 1]", "[ps 0]", "[evaluator]")
        for verb in ("begins", "ends")
    )


def test_outputs_are_kept_in_files(program: str, tmp_path: Path) -> None:
    launch(program, "--workers", "1", "--log-dir", str(tmp_path / "logs"))
    assert (tmp_path / "logs" / "chief-0.log").read_text() == "begins\nends\n"
    assert (tmp_path / "logs" / "worker-0.log").read_text() == "begins\nends\n"


def test_servers_that_outstay_the_chief_are_ended(program: str) -> None:
    code, lines = launch(
        program, "--workers", "1", "--ps", "1", "--grace", "0.5", rules=("ps:0=sleep 100",)
    )
    assert code == 0
    assert "[launch] ps 0 still runs although the chief has ended; it is told to end." in lines


def test_what_a_process_leaves_behind_is_swept(program: str, tmp_path: Path) -> None:
    left = tmp_path / "pid"
    code, _ = launch(program, rules=(f"chief:0=spawn {left}",))
    assert code == 0
    wait_until_gone(int(left.read_text()))


# ------------------------------------------------------------------ failures


def test_failure_of_one_ends_the_job_with_its_code_and_last_lines(program: str) -> None:
    code, lines = launch(program, "--workers", "2", rules=("chief:0=sleep 100", "worker:1=exit 3"))
    assert code == 3
    at = lines.index("[launch] worker 1 ended with exit code 3. Its last lines:")
    assert lines[at + 1 :] == ["    begins", "    about to end"]


def test_worker_of_parameter_servers_is_started_again_alone(program: str, tmp_path: Path) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    others = ("worker:0", "worker:1", "ps:0")
    rules = (
        f"worker:0=fail-once {tmp_path / 'x'} 0",
        *(f"{one}=sign {signs}" for one in others),
        f"chief:0=await-signs {signs} {len(others)}",
    )
    code, lines = launch(program, "--workers", "2", "--ps", "1", "--restart", "1", rules=rules)
    assert code == 0
    assert "[launch] worker 0 ended with exit code 7. Starting worker 0 again (1 of 1)." in lines
    assert beginnings(lines) == ["chief", "ps 0", "worker 0", "worker 0", "worker 1"]


def test_a_worker_that_fails_for_good_is_done_without_where_fewer_are_enough(
    program: str, tmp_path: Path
) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    rules = (
        f"worker:0=sign {signs}",
        "worker:0=exit 7",
        f"worker:1=sign {signs}",
        f"chief:0=await-signs {signs} 2",
        "chief:0=sleep 0.5",
        "worker:1=sleep 1",
    )
    options = ("--workers", "2", "--ps", "1", "--min-workers", "1")
    code, lines = launch(program, *options, rules=rules)
    assert code == 0
    assert "[launch] worker 0 ended with exit code 7. Training goes on without it." in lines


@pytest.mark.parametrize(
    ("options", "who"), [((), "worker:0"), (("--ps", "1"), "ps:0"), (("--ps", "1"), "chief:0")]
)
def test_those_that_train_together_are_started_again_together(
    program: str, tmp_path: Path, options: tuple[str, ...], who: str
) -> None:
    together = ["chief:0", "worker:0", *(["ps:0"] if options else [])]
    others = [one for one in together if one != who]
    rules = (
        f"{who}=fail-once {tmp_path / 'x'} {len(others)}",
        *(f"{one}=stay-once {tmp_path / 'x'}" for one in others),
        "evaluator:0=sleep 1",
    )
    options = ("--workers", "1", "--evaluator", "--restart", "1", *options)
    code, lines = launch(program, *options, rules=rules)
    assert code == 0
    names = [one.removesuffix(":0") + ("" if "chief" in one else " 0") for one in together]
    failed = names[together.index(who)]
    expected = f"{failed} ended with exit code 7. Starting {', '.join(names)} again (1 of 1)."
    assert f"[launch] {expected}" in lines
    assert beginnings(lines) == sorted([*names, *names, "evaluator"])


def beginnings(lines: list[str]) -> list[str]:
    return sorted(line[1:].partition("]")[0] for line in lines if line.endswith("begins"))


def test_failing_more_often_than_allowed_ends_the_job(program: str) -> None:
    code, lines = launch(program, "--restart", "2", rules=("chief:0=exit 4",))
    assert code == 4
    assert lines.count("[chief] begins") == 3
    assert lines[-3].startswith("[launch] chief ended with exit code 4. Its last lines:")


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_all(program: str, number: int, code: int) -> None:
    rules = ("chief:0=sleep 100", "worker:0=sleep 100")
    with launched(program, "--workers", "1", rules=rules) as process:
        read_until(process, "[chief]    begins", "[worker 0] begins")
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(PATIENCE) == code
    assert f"[launch] {signal.Signals(number).name}: ending all processes." in rest


def test_process_that_ignores_sigterm_is_killed_after_the_grace_time(program: str) -> None:
    with launched(program, "--grace", "0.3", rules=("chief:0=stubborn",)) as process:
        read_until(process, "[chief] stubborn")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_launcher_killed_hard_leaves_nobody_behind(program: str, tmp_path: Path) -> None:
    left = tmp_path / "pid"
    rules = (f"chief:0=spawn {left}", "chief:0=sleep 100", "worker:0=sleep 100")
    with launched(program, "--workers", "1", rules=rules) as process:
        read_until(process, "[chief]    begins", "[worker 0] begins")
        children = _children_of(process.pid)
        assert len(children) == 3  # two roles and the guard
        while not (left.exists() and left.read_text()):
            time.sleep(0.02)
        process.kill()
        for pid in [*children, int(left.read_text())]:
            wait_until_gone(pid)


def _children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# ------------------------------------------------------------------ the command line


def test_dry_run_prints_each_tf_config(program: str) -> None:
    result = CliRunner().invoke(main, ["launch", "--workers", "1", "--dry-run", program])
    assert result.exit_code == 0
    lines = dict(line.split(": TF_CONFIG=", 1) for line in result.output.splitlines())
    assert list(lines) == ["chief", "worker 0"]
    clusters = [json.loads(text.strip("'"))["cluster"] for text in lines.values()]
    assert clusters[0] == clusters[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ps", "1", __file__], "needs at least one worker"),
        (["--workers", "1", "nowhere.py"], "There is no file 'nowhere.py' to run."),
        (["--workers", "-1", __file__], "-1 is not in the range"),
        (["--workers", "2", "--min-workers", "1", __file__], "in a cluster with parameter servers"),
        (["--workers", "2", "--ps", "1", "--min-workers", "3", __file__], "from 1 to the number"),
    ],
)
def test_wrong_command_line(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, ["launch", *arguments])
    assert result.exit_code != 0
    assert sentence in result.output


# ------------------------------------------------------------------ lines


def test_lines_are_given_whole_and_the_last_are_kept() -> None:
    given: list[str] = []
    lines = Lines(given.append)
    lines.feed(b"one\ntw")
    lines.feed(b"o\r\n1%\r2%\r3%\nwithout end")
    assert given == ["one", "two", "3%"]
    lines.finish()
    assert given[-1] == "without end"
    lines.feed(b"".join(b"%d\n" % i for i in range(50)))
    assert list(lines.tail) == [str(i) for i in range(30, 50)]


def test_labels_have_a_colour_on_a_terminal_only() -> None:
    tasks = [Task("chief", 0), Task("worker", 0)]
    assert Labels(tasks, coloured=True)[tasks[0]] == "\x1b[32m[chief]\x1b[0m    "
    assert Labels(tasks, coloured=False)[tasks[1]] == "[worker 0] "


def test_a_program_is_not_taken_for_the_address_of_ray(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.touch()
    done = CliRunner().invoke(main, ["launch", "--ray", str(program)])
    assert done.exit_code == 2
    assert "is a file, not the address of a Ray cluster. Write --ray=local" in done.output
