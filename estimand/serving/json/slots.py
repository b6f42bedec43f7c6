"""What reading and writing JSON has to know of a signature: no more, and nothing of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class JsonSlot(Protocol):
    """An input or output. A `Slot` is one."""

    @property
    def alias(self) -> str: ...

    @property
    def kind(self) -> np.dtype | None: ...

    @property
    def type_name(self) -> str: ...


class JsonSignature(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> Mapping[str, JsonSlot]: ...


@dataclass(frozen=True)
class PlainSlot:
    """A slot for a process without TensorFlow."""

    alias: str
    kind: np.dtype | None
    type_name: str

    @classmethod
    def of(cls, slot: JsonSlot) -> PlainSlot:
        return cls(slot.alias, slot.kind, slot.type_name)


@dataclass(frozen=True)
class PlainSignature:
    name: str
    inputs: dict[str, PlainSlot]

    @classmethod
    def of(cls, signature: JsonSignature) -> PlainSignature:
        slots = {alias: PlainSlot.of(slot) for alias, slot in signature.inputs.items()}
        return cls(signature.name, slots)


def shape_text(array: np.ndarray) -> str:
    """As TensorFlow writes it.

    >>> shape_text(np.zeros([2, 3]))
    '[2,3]'
    """
    return f"[{','.join(map(str, array.shape))}]"
