"""Programs that fail do so with the same error, in the same step, in every way of running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import comparing, fixed_part
from tests.differential.comparing import EAGER, Way
from tests.differential.zoo import PROGRAMS

CASES = [
    (name, mode)
    for name in fixed_part.names("failing")
    for mode in (*comparing.modes(), EAGER)
    if mode != EAGER or PROGRAMS[name].eager
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_errors_come_in_their_step(tmp_path: Path, name: str, mode: str) -> None:
    program = PROGRAMS[name]
    comparing.must_fail(program, tmp_path, Way(mode, saves_every=program.fails_at - 1))
    if not (program.unchecked and mode == "xla"):
        assert comparing.lives.newest_values(tmp_path)["global_step"] == program.fails_at - 1


def test_there_are_programs_of_all_kinds() -> None:
    assert len(PROGRAMS) >= 100
    assert len(fixed_part.names("v1")) >= 30 and len(fixed_part.names("keras")) >= 20
