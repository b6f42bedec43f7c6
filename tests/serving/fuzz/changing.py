"""The corpus, and inputs made from it. Needs no TensorFlow: attackers start at once."""

from __future__ import annotations

import random
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 65_536  # of an input

# Inputs of `grpc` choose by number. Methods that change what is served, or take their time, have
# tests of their own.
METHODS = (
    "/tensorflow.serving.PredictionService/Predict",
    "/tensorflow.serving.PredictionService/Classify",
    "/tensorflow.serving.PredictionService/Regress",
    "/tensorflow.serving.PredictionService/MultiInference",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/estimand.serving.ModelService/Describe",
)
_NUMBERS = (0, 1, 127, 2**31, 2**32 - 1)


def corpus_of(kind: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / kind).iterdir())]


def changed(corpus: list[bytes], random_: random.Random) -> bytes:
    """An input made of one or two of the corpus, changed in a few places or not at all."""
    body = bytearray(random_.choice(corpus))
    if random_.random() < 0.3:
        other = random_.choice(corpus)
        place = random_.randrange(len(body) + 1)
        start = random_.randrange(len(other) + 1)
        body[place:place] = other[start : start + random_.randint(1, 200)]
    for _ in range(random_.choice([0, 1, 1, 2, 4, 16])):
        _change(body, random_)
    return bytes(body[:MOST_BYTES])


def _change(body: bytearray, random_: random.Random) -> None:
    place = random_.randrange(len(body) + 1)
    kind = random_.randrange(6)
    if kind == 0:
        body[place : place + 1] = random_.randbytes(1)
    elif kind == 1 and place < len(body):
        body[place] ^= 1 << random_.randrange(8)
    elif kind == 2:
        del body[place : place + random_.choice([1, 2, 8, 64])]
    elif kind == 3:
        body[place:place] = random_.randbytes(random_.randint(1, 8))
    elif kind == 4:
        piece = body[place : place + random_.randint(1, 32)]
        body[place:place] = piece * random_.choice([1, 2, 30])
    else:
        body[place : place + 4] = random_.choice(_NUMBERS).to_bytes(4, "big")
