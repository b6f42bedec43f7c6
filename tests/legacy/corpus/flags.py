"""Flags of absl have their defaults in tests that pytest runs, as if the test file were run."""

from __future__ import annotations

from typing import Any

from absl import flags


def pytest_collection_finish(session: Any) -> None:
    del session
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["pytest"])
