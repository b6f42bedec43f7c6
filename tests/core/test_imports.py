from __future__ import annotations

import subprocess
import sys


def loaded_after(statement, *modules):
    script = f"import sys; {statement}; print([m for m in {modules!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def test_configuration_does_not_load_tensorflow():
    statement = "from estimand.core import config, errors, hparams, modes; config.RunConfig()"
    assert loaded_after(statement, "tensorflow", "keras") == "[]"
