from __future__ import annotations

import pytest

from tests.integration import processes


@pytest.fixture(scope="session", autouse=True)
def server() -> None:
    """Started once, before the check for leaks looks at any test."""
    processes.start_server()
