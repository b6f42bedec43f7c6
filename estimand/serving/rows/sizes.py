"""Sizes of axes: a number times symbols.

>>> rows, time = Symbol("joined", ("rows",)), Symbol("fixed", ("x", 1))
>>> size = Size.of(rows) * Size.of(time) * Size(4)
>>> size.joined is rows, size.is_fixed
(True, False)
>>> size.divided_by(Size.of(time)) == Size.of(rows) * Size(4)
True
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """Something that is not known before there is a request.

    fixed: the same whether requests are joined or not.
    joined: what the requests of a batch have of it comes one after the other.
    set: of things that requests may have in common.
    varying: any other number that depends on who is in the batch.
    """

    kind: str
    key: tuple[object, ...]


@dataclass(frozen=True)
class Size:
    number: int
    symbols: tuple[Symbol, ...] = ()

    @classmethod
    def of(cls, symbol: Symbol) -> Size:
        return cls(1, (symbol,))

    def __mul__(self, other: Size) -> Size:
        symbols = (*self.symbols, *other.symbols)
        return Size(self.number * other.number, tuple(sorted(symbols, key=repr)))

    @property
    def is_number(self) -> bool:
        return not self.symbols

    @property
    def is_fixed(self) -> bool:
        return all(symbol.kind == "fixed" for symbol in self.symbols)

    @property
    def others(self) -> tuple[Symbol, ...]:
        """What is not fixed of it."""
        return tuple(symbol for symbol in self.symbols if symbol.kind != "fixed")

    @property
    def joined(self) -> Symbol | None:
        """Of an axis along which requests come one after the other, each with its share."""
        others = self.others
        return others[0] if len(others) == 1 and others[0].kind == "joined" else None

    @property
    def is_set(self) -> bool:
        return len(self.symbols) == 1 and self.symbols[0].kind == "set" and self.number == 1

    def matches(self, other: Size) -> bool:
        """Whether they are surely the same, or at least the same whoever is in the batch."""
        return self == other and (self.is_fixed or UNKNOWN_SYMBOL not in self.symbols)

    def divided_by(self, other: Size) -> Size | None:
        """None if that is not sure to be whole."""
        if UNKNOWN_SYMBOL in other.symbols or not other.number or self.number % other.number:
            return None
        left = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        return Size(self.number // other.number, tuple(left))


def product(sizes: tuple[Size, ...]) -> Size:
    result = Size(1)
    for size in sizes:
        result = result * size
    return result


UNKNOWN_SYMBOL = Symbol("fixed", ("unknown",))  # not even the same as another of its kind
UNKNOWN = Size.of(UNKNOWN_SYMBOL)
ONE = Size(1)
ROWS = Size.of(Symbol("joined", ("rows",)))
