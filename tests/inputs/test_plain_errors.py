"""Batches read by hand: errors and skips are told as a training would tell them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import estimand as est
from estimand.core.errors import InputError


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "ages.csv"
    path.write_text("age\n31\nold\n47\n")
    return path


def test_the_place_of_the_fault_is_told(broken: Path) -> None:
    read = est.inputs.csv_input_fn(broken, column_defaults={"age": int})
    with (
        pytest.raises(InputError, match=r"ages.csv, line 3, column 'age': 'old' is not"),
        est.inputs.plain_errors(),
    ):
        list(read(mode="eval"))


def test_what_was_skipped_is_logged(broken: Path, caplog: pytest.LogCaptureFixture) -> None:
    read = est.inputs.csv_input_fn(broken, column_defaults={"age": int}, on_error="skip")
    with caplog.at_level(logging.WARNING, "tensorflow"), est.inputs.plain_errors():
        ages = [batch["age"].numpy().tolist() for batch in read(mode="eval")]
    assert ages == [[31, 47]]
    assert "Skipped 1 of 3 rows of" in caplog.text


def test_other_errors_are_left_as_they_are(broken: Path) -> None:
    read = est.inputs.csv_input_fn(broken, column_defaults={"age": str})
    with pytest.raises(ZeroDivisionError), est.inputs.plain_errors():
        list(read(mode="eval"))
        _ = 1 / 0
