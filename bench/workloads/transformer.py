"""Steps per second of a small transformer over sequences of 40 tokens."""

from __future__ import annotations

from typing import Any

from workloads.mid_size import Model, tokens

_WORDS, _LENGTH, _WIDTH, _HEADS, _BLOCKS = 5000, 40, 64, 4, 2


def _keras(keras: Any) -> Any:
    layers = keras.layers
    x = inputs = keras.Input((_LENGTH,), dtype="int32")
    x = layers.Embedding(_WORDS, _WIDTH)(x)
    for _ in range(_BLOCKS):
        attention = layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS)
        x = layers.LayerNormalization(epsilon=1e-5)(layers.Add()([x, attention(x, x)]))
        wide = layers.Dense(4 * _WIDTH, activation="relu")(x)
        x = layers.LayerNormalization(epsilon=1e-5)(layers.Add()([x, layers.Dense(_WIDTH)(wide)]))
    return keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))


def _torch(torch: Any) -> Any:
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(_WORDS, _WIDTH)
            block = nn.TransformerEncoderLayer(
                _WIDTH, _HEADS, 4 * _WIDTH, dropout=0.0, batch_first=True
            )
            self.blocks = nn.TransformerEncoder(block, _BLOCKS)
            self.logits = nn.Linear(_WIDTH, 2)

        def forward(self, x: Any) -> Any:
            return self.logits(self.blocks(self.words(x)).mean(dim=1))

    return Network()


WORKLOAD = Model(
    "transformer of 2 blocks, width 64, on 40 tokens, batch 64, Adam",
    lambda: tokens(2048, _LENGTH, _WORDS),
    64,
    _keras,
    _torch,
).workload()
