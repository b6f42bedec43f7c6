"""Python's search for cycles rests while graphs are built, and only then."""

from __future__ import annotations

import gc

import pytest

from estimand.core.interpreter import garbage


@pytest.fixture(autouse=True)
def _as_before():
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_overlapping_builders_wait_for_the_last_of_them() -> None:
    first, second = garbage.left_alone(), garbage.left_alone()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_inside_switches_it_on_again() -> None:
    with pytest.raises(ValueError, match="in a model function"), garbage.left_alone():
        raise ValueError("in a model function")
    assert gc.isenabled()


def test_whoever_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with garbage.left_alone():
        pass
    assert not gc.isenabled()
