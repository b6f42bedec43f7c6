"""Files that are there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from estimand.core.files.atomic_files import parse_temporary, replace_text, replacing


def test_file_appears_under_its_name_when_it_is_complete(tmp_path: Path) -> None:
    place = tmp_path / "model.keras"
    with replacing(str(place)) as temporary:
        Path(temporary).write_bytes(b"new")
        assert not place.exists()
        assert temporary.endswith(".keras")
        assert parse_temporary(Path(temporary).name) is not None
    assert place.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [place]


def test_what_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    place = tmp_path / "a.json"
    replace_text(str(place), "old")
    with pytest.raises(OSError, match="disk full"), replacing(str(place)) as temporary:
        Path(temporary).write_text("half")
        raise OSError("disk full")
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_two_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    place = str(tmp_path / "a")
    with replacing(place) as first, replacing(place) as second:
        assert first != second
        Path(first).write_text("1")
        Path(second).write_text("2")
    assert Path(place).read_text() == "1"  # the outer one was last to be put in place
