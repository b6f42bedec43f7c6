from __future__ import annotations

from typing import Any

from estimand.serving.rest.shared import Shared


def test_who_alone_asks_is_known_until_another_asks() -> None:
    nothing: Any = None
    shared = Shared(nothing, nothing, nothing, nothing)
    first, second = object(), object()

    def asks(connection: Any, times: int) -> list[bool]:
        return [shared.asks_alone(connection) for _ in range(times)]

    assert not any(asks(first, 32))
    assert all(asks(first, 10))
    assert asks(second, 2) == [False, False]
    assert not any(asks(first, 32))


def test_of_those_that_take_turns_none_asks_alone() -> None:
    nothing: Any = None
    shared = Shared(nothing, nothing, nothing, nothing)
    connections: list[Any] = [object() for _ in range(3)]
    assert not any(shared.asks_alone(connections[i % 3]) for i in range(300))
