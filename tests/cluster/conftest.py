from __future__ import annotations

import pytest

from tests.integration import processes


@pytest.fixture(scope="session")
def server() -> None:
    """Children are forked from it. Asked for by a fixture, so before the check for leaks looks."""
    processes.start_server()
