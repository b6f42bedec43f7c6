from __future__ import annotations

import pytest

from tests.engine.distributed.served_cluster import Processes


@pytest.fixture(scope="module")
def processes():
    made = Processes()
    yield made
    made.close()
