"""Fields are counted as the parser finds them, whatever the message."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tensorflow_serving.apis import classification_pb2, predict_pb2

from estimand.serving.protos.wire_fields import FieldCount
from tests.serving.running import example, predict_request

PREDICT = predict_pb2.PredictRequest.DESCRIPTOR


def count(kind, body: bytes) -> int:
    counted = FieldCount(kind, body)
    assert counted.goes_on_to(10**9)
    return counted.fields


def number_of_fields(message) -> int:
    """By the parser's own account. Packed values are one field."""
    found = 0
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found += sum(1 + 1 + 1 + number_of_fields(value[key]) for key in value)
        elif field.is_repeated if hasattr(field, "is_repeated") else field.label == 3:
            values = list(value)
            if field.message_type is not None:
                found += sum(1 + number_of_fields(one) for one in values)
            else:
                found += 1 if field.is_packed else len(values)
        else:
            found += 1 + (number_of_fields(value) if field.message_type is not None else 0)
    return found


def test_values_of_packed_fields_and_contents_do_not_count() -> None:
    small = predict_request("m", x=np.zeros(1, np.float32))
    large = predict_request("m", x=np.zeros(100_000, np.float32))
    sizes = [count(PREDICT, one.SerializeToString()) for one in (small, large)]
    assert sizes[0] == sizes[1] == number_of_fields(large)


def test_strings_and_messages_count() -> None:
    request = predict_request("m", x=np.array([b"a" * n for n in range(300)], object))
    assert count(PREDICT, request.SerializeToString()) == number_of_fields(request) > 300
    examples = classification_pb2.ClassificationRequest()
    examples.input.example_list.examples.extend([example()] * 500)
    body = examples.SerializeToString()
    assert count(type(examples).DESCRIPTOR, body) == number_of_fields(examples) > 500


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_are_no_message_end(seed: int) -> None:
    random_ = random.Random(seed)
    body = bytearray(predict_request("m", x=np.array([b"ab"] * 50, object)).SerializeToString())
    for _ in range(300):
        body[random_.randrange(len(body))] = random_.randrange(256)
        assert FieldCount(PREDICT, bytes(body)).goes_on_to(10**6)
    assert FieldCount(PREDICT, b"\xff" * 1000).goes_on_to(10**6)
