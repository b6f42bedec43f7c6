"""One client asks for more than can be answered: the others get their answers."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import requests

from tests.serving.attacks.watching import bystanders
from tests.serving.overload import Client
from tests.serving.running import Server


@pytest.mark.slow
@pytest.mark.full
def test_a_client_that_floods_a_slow_model(attacked: Server) -> None:
    flood = Client(attacked, "slow", x=np.float32([1.0]))
    calls = [flood.ask() for _ in range(300)]
    with bystanders(attacked) as others:
        other = Client(attacked, "slow", x=np.float32([2.0]))
        for _ in range(3):
            assert other.ask().result().outputs["y"].float_val[0] == 3.0
        # Another front, another connection: the same lane.
        url = attacked.url("/v1/models/slow:predict")
        answer = requests.post(url, json={"instances": [4.0]}, timeout=20)
        assert answer.json()["predictions"] == [5.0]
        others.served(5)
        calls += [flood.ask() for _ in range(300)]  # by now it is known how long they take
        codes = {call.code() for call in calls}
    other.channel.close()
    flood.channel.close()
    # The first ones came before anybody knew how long they take: some may have waited in vain.
    refused = grpc.StatusCode.RESOURCE_EXHAUSTED
    assert codes - {grpc.StatusCode.DEADLINE_EXCEEDED} == {grpc.StatusCode.OK, refused}
    assert flood.pushed_back == len(flood.seconds["RESOURCE_EXHAUSTED"])
