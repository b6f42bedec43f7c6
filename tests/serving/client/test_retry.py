"""When a client asks again, and when it does not. Time is made up: nothing waits."""

from __future__ import annotations

import pytest

from estimand.core.errors import ConfigError
from estimand.serving.client.errors import DeadlineError, RequestError
from estimand.serving.client.retry import Retries, call


class World:
    """A clock that moves when somebody sleeps, and a server that fails as told."""

    def __init__(self, *failures: RequestError) -> None:
        self.now = 100.0
        self.pauses: list[float] = []
        self.given: list[float] = []
        self._failures = list(failures)

    def attempt(self, left: float) -> str:
        self.given.append(left)
        if self._failures:
            raise self._failures.pop(0)
        return "answer"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def ask(self, timeout: float = 10.0, retries: Retries | None = None) -> str:
        return call(
            self.attempt,
            self.now + timeout,
            retries or Retries(first_pause=1.0, longest_pause=3.0),
            clock=lambda: self.now,
            sleep=self.sleep,
            draw=lambda: 0.5,
        )


def busy(code: str = "UNAVAILABLE", text: str = "busy") -> RequestError:
    return RequestError(code, text)


def test_pauses_grow_up_to_the_longest_and_attempts_get_what_is_left() -> None:
    world = World(busy(), busy("RESOURCE_EXHAUSTED"), busy(), busy())
    assert world.ask() == "answer"
    assert world.pauses == [0.5, 1.0, 1.5, 1.5]
    assert world.given == [10.0, 9.5, 8.5, 7.0, 5.5]


def test_a_model_that_is_loading_is_waited_for_as_long_as_there_is_time() -> None:
    world = World(*[busy(text="The server is still loading its first models.")] * 9)
    assert world.ask() == "answer"
    assert world.pauses == [0.5] * 9  # not more than a second, with half of it drawn
    world = World(*[busy(text="still loading")] * 99)
    with pytest.raises(RequestError, match="still loading"):
        world.ask()
    world = World(busy(text="still loading"))
    with pytest.raises(RequestError):
        world.ask(retries=Retries(attempts=1))
    assert len(world.given) == 1


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL", "DEADLINE_EXCEEDED", "NOT_FOUND"])
def test_what_would_fail_again_is_not_tried_again(code: str) -> None:
    world = World(busy(code))
    with pytest.raises(RequestError, match=code):
        world.ask()
    assert len(world.given) == 1


def test_a_message_that_is_too_large_is_not_sent_again() -> None:
    world = World(busy("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 4)"))
    with pytest.raises(RequestError, match="larger"):
        world.ask()
    assert len(world.given) == 1


def test_the_last_attempt_raises_its_error() -> None:
    world = World(*(busy(text=f"number {n}") for n in range(5)))
    with pytest.raises(RequestError, match="number 2"):
        world.ask(retries=Retries(attempts=3))


def test_no_pause_goes_beyond_the_deadline() -> None:
    world = World(busy(), busy(), busy())
    with pytest.raises(RequestError, match="busy"):
        world.ask(timeout=1.0)
    assert world.pauses == [0.5]  # the next, of one second, would end too late


def test_when_no_time_is_left_nothing_is_sent() -> None:
    world = World()
    with pytest.raises(DeadlineError, match="set a longer timeout"):
        world.ask(timeout=0.0)
    assert world.given == []


def test_the_server_may_ask_for_a_longer_pause() -> None:
    error = busy("RESOURCE_EXHAUSTED")
    error.retry_after = 4.0
    world = World(error)
    world.ask()
    assert world.pauses == [4.0]


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="at least one attempt"):
        Retries(attempts=0)
    with pytest.raises(ConfigError, match="0 or more"):
        Retries(first_pause=-1.0)
