"""JSON that is written to cost much: nobody else may notice."""

from __future__ import annotations

import json

import pytest
import requests

from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server


def columns(**changes: object) -> bytes:
    """A request for the model that gives back what it is given."""
    given = {"f32": 1, "f64": 1, "i32": 1, "i64": 1, "u8": 1, "bool": True, "text": "a"} | changes
    return json.dumps({"inputs": given}).encode()


BODIES = {
    "quotes that do not end, after what only a lenient reader takes": b'Inf "' + rb"\"" * 30_000,
    "a long text among many numbers": columns(f32=[1] * 30_000 + ["a" * 200_000]),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_is_written_to_cost_much(attacked: Server, case: str) -> None:
    url = attacked.url("/v1/models/types:predict")
    with bystanders(attacked) as others:
        for _ in range(3):
            code = requests.post(url, BODIES[case], timeout=60).status_code
            assert code == 400
        others.served(5)
