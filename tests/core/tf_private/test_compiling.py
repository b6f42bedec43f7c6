"""XLA's flags are set for this process alone, and only where nobody else has set any."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

from estimand.core.tf_private import compiling


def test_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    compiling.keep_products_in_one_thread.__wrapped__()
    assert "XLA_FLAGS" not in os.environ


@pytest.mark.parametrize("release", ["2.19.1", "2.22.0"])
def test_releases_that_may_not_know_the_flag_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(tf, "__version__", release)
    monkeypatch.setattr(tf, "function", None)  # would be called to have the flags read
    compiling.keep_products_in_one_thread.__wrapped__()


def test_flags_of_the_user_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    monkeypatch.setattr(tf, "function", None)
    compiling.keep_products_in_one_thread.__wrapped__()
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=false"
