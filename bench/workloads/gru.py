"""Steps per second of a recurrent network with gated units over sequences of 40 tokens."""

from __future__ import annotations

from typing import Any

from workloads.mid_size import Model, tokens

_WORDS, _LENGTH, _UNITS = 5000, 40, 64


def _keras(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((_LENGTH,), dtype="int32"),
            layers.Embedding(_WORDS, _UNITS),
            layers.GRU(_UNITS),
            layers.Dense(2),
        ]
    )


def _torch(torch: Any) -> Any:
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(_WORDS, _UNITS)
            self.gru = nn.GRU(_UNITS, _UNITS, batch_first=True)
            self.logits = nn.Linear(_UNITS, 2)

        def forward(self, x: Any) -> Any:
            return self.logits(self.gru(self.words(x))[0][:, -1])

    return Network()


WORKLOAD = Model(
    "GRU of 64 units on 40 tokens, batch 64, Adam",
    lambda: tokens(2048, _LENGTH, _WORDS),
    64,
    _keras,
    _torch,
).workload()
