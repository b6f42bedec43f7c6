"""Programs that print the numbers which tf.estimator 2.15 printed: compared/record.py has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import forked

COMPARED = Path(__file__).parent / "compared"
NUMBERS = json.loads((COMPARED / "numbers.json").read_text())


def close(value: Any) -> Any:
    """The same, with numbers that need to agree to five digits."""
    if isinstance(value, dict):
        return {key: close(one) for key, one in value.items()}
    if isinstance(value, list):
        return [close(one) for one in value]
    return pytest.approx(value, rel=1e-5, abs=1e-6) if isinstance(value, float) else value


@pytest.mark.parametrize("program", sorted(NUMBERS))
def test_numbers_of_the_original(program: str, tmp_path: Path) -> None:
    done = forked.run(["-m", "estimand", "run", COMPARED / f"{program}.py", tmp_path])
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == close(NUMBERS[program])
