"""Programs of the zoo come to the same bits, whoever looks and however often they are stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential import fixed_part


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", fixed_part.names("v1"))
def test_looks_and_interruptions_change_no_bit(tmp_path: Path, name: str) -> None:
    fixed_part.check(name, tmp_path)
