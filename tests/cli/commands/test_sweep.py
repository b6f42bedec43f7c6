"""`estimand sweep`, before it comes to Optuna; what it finds is in tests/tuning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from estimand.cli.commands import sweep

WORKER = """
import os, signal, sys, time
path = sys.argv[1] + str(os.getpid())
def save(number, frame):
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)  # a second one ends it at once
    time.sleep(0.2)
    open(path, "w").write("saved")
    sys.exit(128 + number)
for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, save)
open(path, "w").write("runs")
signal.pause()
"""


def test_space_of_a_file_has_parts_and_numbers(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text('rate = ["1e-4", 0.1]\n[params]\nunits = "8..16"\nkind = ["relu", "true"]\n')
    assert sweep._space([str(file)], ["params.depth=1,2"]) == {
        "rate": [0.0001, 0.1],
        "params.units": "8..16",
        "params.kind": ["relu", "true"],
        "params.depth": "1,2",
    }


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_lets_the_workers_save(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(popen([sys.executable, "-c", WORKER, f"{tmp_path}/"]))
        return started[-1]

    def signal_when_all_run() -> None:
        for _ in range(3000):
            if [path.read_text() for path in tmp_path.iterdir()] == ["runs"] * 2:
                break
            time.sleep(0.01)
        if number == signal.SIGINT:  # a terminal sends it to all
            for part in started:
                part.send_signal(number)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.getsignal(signal.SIGTERM)
    watching = threading.Thread(target=signal_when_all_run)
    watching.start()
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        sweep._run_parts(2)
    watching.join()
    assert [part.returncode for part in started] == [128 + number] * 2
    assert [path.read_text() for path in tmp_path.iterdir()] == ["saved"] * 2
    assert signal.getsignal(signal.SIGTERM) is before
