"""Programs of `estimand launch` that find TensorFlow imported: they notice nothing else of it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.cli import forkable
from estimand.cluster import forked
from estimand.cluster.forked import ForkServer
from estimand.cluster.places import LocalMachine
from estimand.cluster.processes import Guard
from tests.cluster.test_launch import PATIENCE, is_running, wait_until_gone

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="nothing is forked there"
)

# Everything that a program can ask about itself, and that is not a matter of chance.
ABOUT_ITSELF = """
import json, os, signal, sys
print("begun with TensorFlow:", "tensorflow" in sys.modules)
import __main__, tensorflow as tf
print(sys.argv, sys.orig_argv, sys.flags, sys.path[0], __name__, __file__, __spec__, __package__)
print(__main__.__file__, __main__ is sys.modules["__main__"], "__annotations__" in globals())
print(os.getcwd(), os.getpgrp() == os.getsid(0) == os.getpid(), sys.stdin.read() == "")
print([str(signal.getsignal(number)) for number in range(1, 32)], __builtins__)
print(sys.stdout.encoding, sys.stdout.write_through, sys.stdout.line_buffering, sys.stderr.name)
print(json.loads(os.environ["TF_CONFIG"])["task"], sorted(os.environ.keys()))
print(sorted(int(one) for one in os.listdir("/proc/self/fd") if int(one) < 3))
value: int = 1
"""
FAILS = """
import tensorflow, sys
def deeper():
    raise ValueError("so it is")
deeper()
"""


MODULES = ("tensorflow", "estimand.estimator.estimator")


class Watched:
    """A program, watched as `LocalJob` does."""

    def __init__(self, child: forked.ForkedChild) -> None:
        self.child = child

    def code(self) -> int:
        ends = time.monotonic() + PATIENCE
        while (code := self.child.exit_code()) is None:
            assert time.monotonic() < ends
            time.sleep(0.01)
        return code

    def text(self) -> str:
        return self.child.output.read().decode()

    def line(self) -> str:
        self.child.exit_code()  # looked at, it may begin
        text = b""
        while not text.endswith(b"\n"):
            self.child.exit_code()
            os.set_blocking(self.child.output.fileno(), False)
            text += self.child.output.read(1) or b""
        os.set_blocking(self.child.output.fileno(), True)
        return text.decode()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ForkServer, Path]]:
    """A server for a script that can be written anew for each test."""
    script = tmp_path_factory.mktemp("forked") / "program.py"
    guard = Guard()
    server = ForkServer(MODULES, [sys.executable, str(script), "one", "two"], guard)
    try:
        yield server, script
    finally:
        server.end()
        guard.end()


def start(place: tuple[ForkServer, Path], program: str, **environ: str) -> Watched:
    server, script = place
    script.write_text(program)
    return Watched(server.start({"TF_CONFIG": "{}", **environ}))


def launch(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "estimand", "launch", *options, "program.py", "one", "two"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def test_a_program_is_told_the_same_about_itself_forked_or_not(tmp_path: Path) -> None:
    forked_ = launch(tmp_path, ABOUT_ITSELF)
    plain = launch(tmp_path, ABOUT_ITSELF + "\nos.putenv")
    assert forked_.returncode == plain.returncode == 0, forked_.stdout + plain.stdout
    ours, theirs = (text.stdout.splitlines() for text in (forked_, plain))
    assert [line for line in ours if "begun" in line] == ["[chief] begun with TensorFlow: True"]
    assert [line for line in theirs if "begun" in line] == ["[chief] begun with TensorFlow: False"]
    answers = (lines[_first(lines, "'program.py'") :] for lines in (ours, theirs))
    assert next(answers) == next(answers)


def _first(lines: list[str], part: str) -> int:
    return next(i for i, line in enumerate(lines) if part in line)


def test_annotations_are_those_of_the_program(place: tuple[ForkServer, Path]) -> None:
    watched = start(place, "import tensorflow\nvalue: missing = 1\n")
    assert watched.code() == 1
    assert "NameError: name 'missing' is not defined" in watched.text()


def test_an_error_is_told_from_the_side_of_the_program(place: tuple[ForkServer, Path]) -> None:
    watched = start(place, FAILS)
    assert watched.code() == 1
    told = watched.text()
    told = told[told.index("Traceback") :]
    plain = subprocess.run([sys.executable, place[1]], capture_output=True, text=True).stderr
    assert told == plain[plain.index("Traceback") :]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import atexit, os; atexit.register(lambda: os._exit(5))", 5),
        ("import os, threading, time\nthreading.Timer(0.2, lambda: os._exit(6)).start()", 6),
        ("raise KeyboardInterrupt", 130),
        ("this is no program", 1),
    ],
)
def test_exit_codes(place: tuple[ForkServer, Path], program: str, code: int) -> None:
    assert start(place, program).code() == code


def test_each_has_random_numbers_of_its_own(place: tuple[ForkServer, Path]) -> None:
    program = "import random, numpy\nprint('drew', random.random(), numpy.random.random())"
    drawn = []
    for _ in range(2):
        watched = start(place, program)
        assert watched.code() == 0
        drawn.append(watched.text().rpartition("drew ")[2].split())
    assert drawn[0][0] != drawn[1][0] and drawn[0][1] != drawn[1][1]


def test_a_signal_goes_to_its_whole_group(place: tuple[ForkServer, Path]) -> None:
    program = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '100'])\n"
        "print('started', child.pid, flush=True)\nchild.wait()\n"
    )
    watched = start(place, program)
    while not (line := watched.line()).startswith("started"):
        pass
    watched.child.signal(signal.SIGTERM)
    assert watched.code() == 143
    wait_until_gone(int(line.split()[1]))
    watched.child.sweep()


def test_what_is_told_to_end_before_it_could_begin_never_does(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    guard = Guard()
    server = ForkServer(MODULES, [sys.executable, str(script)], guard)
    try:
        first = server.start({})
        first.signal(signal.SIGTERM)
        assert first.exit_code() == 143
        first.sweep()
        script.write_text("print('the next one')")
        watched = Watched(server.start({}))
        assert watched.code() == 0
        assert watched.text().endswith("the next one\n")
        assert not (tmp_path / "ran").exists()
    finally:
        server.end()
        guard.end()


def test_where_the_server_fails_programs_are_started_as_ever(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise RuntimeError('not here')")
    script = tmp_path / "program.py"
    script.write_text("import sys; print('ran', 'tensorflow' in sys.modules); sys.exit(3)")
    guard = Guard()
    server = ForkServer(MODULES, [sys.executable, str(script)], guard)
    try:
        for _ in range(2):  # while it fails, and after it has
            watched = Watched(server.start({}))
            assert watched.code() == 3
            assert watched.text() == "ran False\n"
            watched.child.sweep()
    finally:
        server.end()
        guard.end()


def test_launcher_killed_hard_leaves_nobody_behind(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import tensorflow, os, time\nprint('runs', os.getpid(), flush=True)\ntime.sleep(100)"
    )
    command = [sys.executable, "-m", "estimand", "launch", "--workers", "1", "program.py"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    pids: list[int] = []
    while len(pids) < 2:
        line = process.stdout.readline()
        assert line
        if "runs" in line:
            pids.append(int(line.split()[-1]))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 4  # two roles, the guard, and the process that they were forked from
    assert set(map(str, pids)) <= set(children)
    process.kill()
    process.communicate()
    for pid in map(int, children):
        wait_until_gone(pid)


def test_the_server_ends_with_the_job(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import tensorflow")
    with LocalMachine(MODULES) as place:
        child = place.start(None, [sys.executable, str(script)], {})  # type: ignore[arg-type]
        assert isinstance(child, forked.ForkedChild)
        assert Watched(child).code() == 0
        child.sweep()
        server = place._server._process.pid  # type: ignore[union-attr]
        assert is_running(server)
    assert not is_running(server)


# ------------------------------------------------------------------ who may be forked


@pytest.mark.parametrize(
    "line",
    [
        "os.environ['TF_USE_LEGACY_KERAS'] = '1'",
        "os.environ['A'] += '1'",
        "del os.environ['A']",
        "os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')",
        "os.environ |= {'A': '1'}",
        "os.putenv('A', '1')",
        "change(os.environ)",
        "from os import environ as e; e['A'] = '1'",
        "from os import putenv as p; p('A', '1')",
        "from dotenv import load_dotenv; load_dotenv()",
    ],
)
def test_a_program_that_sets_variables_is_not_forked(tmp_path: Path, line: str) -> None:
    program, module = tmp_path / "program.py", tmp_path / "settings.py"
    program.write_text(f"import os\n{line}\nimport tensorflow as tf")
    assert not forkable.modules_to_import(str(program))
    program.write_text("import settings\nimport tensorflow as tf")
    module.write_text(f"import os\n{line}")
    assert not forkable.modules_to_import(str(program))
    module.write_text("")
    assert forkable.modules_to_import(str(program))


@pytest.mark.parametrize(
    "line",
    ["os.environ['TF_CONFIG']", "'A' in os.environ", "os.environ.get('A')", "from os import path"],
)
def test_reading_the_environment_is_no_reason(line: str) -> None:
    assert not forkable.sets_variables(ast.parse(f"import os\nfound = 1\n{line}"))


def test_a_program_that_does_without_tensorflow_is_not_forked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import json")
    assert not forkable.modules_to_import(str(program))
    program.write_text("from tensorflow import keras")
    assert forkable.modules_to_import(str(program))


def test_orphans_are_taken_in_only_as_long_as_there_is_a_server(tmp_path: Path) -> None:
    before = forked._takes_in_orphans()
    guard = Guard()
    server = ForkServer(("os",), [sys.executable, str(tmp_path / "program.py")], guard)
    assert forked._takes_in_orphans()
    server.end()
    guard.end()
    assert forked._takes_in_orphans() == before
