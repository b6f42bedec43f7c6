"""Recurrent networks over sequences of 40 tokens, which differ in their cell."""

from __future__ import annotations

from typing import Any

from workload import Workload

from workloads.mid_size import Model, tokens

_WORDS, _LENGTH, _UNITS = 5000, 40, 64


def recurrent(cell: str) -> Workload:
    """`cell` is what Keras and PyTorch both call it: "LSTM" or "GRU"."""

    def keras_model(keras: Any) -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((_LENGTH,), dtype="int32"),
                layers.Embedding(_WORDS, _UNITS),
                getattr(layers, cell)(_UNITS),
                layers.Dense(2),
            ]
        )

    def torch_model(torch: Any) -> Any:
        nn = torch.nn

        class Network(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.words = nn.Embedding(_WORDS, _UNITS)
                self.recurrent = getattr(nn, cell)(_UNITS, _UNITS, batch_first=True)
                self.logits = nn.Linear(_UNITS, 2)

            def forward(self, x: Any) -> Any:
                return self.logits(self.recurrent(self.words(x))[0][:, -1])

        return Network()

    return Model(
        f"{cell} of 64 units on 40 tokens, batch 64, Adam",
        lambda: tokens(2048, _LENGTH, _WORDS),
        64,
        keras_model,
        torch_model,
    ).workload()
