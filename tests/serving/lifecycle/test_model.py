"""How versions of a model come and go, with loads that take no time and do nothing."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from estimand.serving.lifecycle.config import ModelSettings
from estimand.serving.lifecycle.model import Loading, Model, State
from estimand.serving.probing.verdicts import VersionRefused
from estimand.serving.status import StatusError


class FakeVersion:
    def __init__(self, number: int, events: list[str]) -> None:
        self.number = number
        self._events = events
        self.free = asyncio.Event()
        self.free.set()

    async def unused(self) -> None:
        await self.free.wait()

    def close(self) -> None:
        self._events.append(f"-{self.number}")


class World:
    """A model whose loads and unloads are written down."""

    def __init__(self, unload_first: bool = False, retries: int = 0, pause: float = 0.001) -> None:
        self.events: list[str] = []
        self.broken: set[int] = set()

        async def load(name: str, number: int, path: str) -> FakeVersion:
            await asyncio.sleep(0)
            if number in self.broken:
                raise OSError(f"{number} is broken")
            self.events.append(f"+{number}")
            return FakeVersion(number, self.events)

        async def in_thread(call, *arguments):
            await asyncio.sleep(0)
            return call(*arguments)

        loading = Loading(load, in_thread, retries, pause, unload_first)
        self.model = Model(ModelSettings("m", "/m"), loading)

    async def want(self, *numbers: int) -> None:
        self.model.want({number: f"/m/{number}" for number in numbers})
        await self.model.settled()
        await asyncio.sleep(0.01)

    def states(self) -> dict[int, str]:
        return {n: version.state.name for n, version in sorted(self.model.versions.items())}


def test_the_new_version_is_loaded_before_the_old_one_goes() -> None:
    async def main() -> None:
        world = World()
        await world.want(1)
        await world.want(2)
        assert world.events == ["+1", "+2", "-1"]
        assert world.model.latest().number == 2
        assert world.states() == {1: "END", 2: "AVAILABLE"}

    asyncio.run(main())


def test_the_old_version_goes_first_when_memory_is_dear() -> None:
    async def main() -> None:
        world = World(unload_first=True)
        await world.want(1)
        await world.want(2)
        assert world.events == ["+1", "-1", "+2"]

    asyncio.run(main())


def test_a_broken_new_version_leaves_the_old_one_serving() -> None:
    async def main() -> None:
        world = World(retries=2)
        world.broken.add(2)
        await world.want(1)
        world.model.want({2: "/m/2"})
        await world.model.settled()
        assert world.model.versions[2].state is State.END
        assert "2 is broken" in world.model.versions[2].error.text
        assert world.model.latest().number == 1
        world.broken.clear()
        await world.want(3)
        assert world.model.latest().number == 3

    asyncio.run(main())


def test_a_version_in_use_is_closed_when_its_last_request_has_ended() -> None:
    async def main() -> None:
        world = World()
        await world.want(1)
        old = world.model.latest()
        old.free.clear()
        await world.want(2)
        assert world.events == ["+1", "+2"]
        assert world.states()[1] == "UNLOADING"
        with pytest.raises(StatusError, match=r"Specific\(m, 1\)"):
            world.model.specific(1)
        old.free.set()
        await asyncio.sleep(0.01)
        assert world.events == ["+1", "+2", "-1"]

    asyncio.run(main())


def test_a_version_that_comes_back_is_loaded_again() -> None:
    async def main() -> None:
        world = World()
        await world.want(1, 2)
        await world.want(2)
        await world.want(1, 2)
        assert world.events == ["+2", "+1", "-1", "+1"]
        assert world.states() == {1: "AVAILABLE", 2: "AVAILABLE"}

    asyncio.run(main())


def test_ended_versions_are_not_listed_without_end() -> None:
    async def main() -> None:
        world = World()
        for number in range(1, 60):
            world.model.want({number: "/m"})
            await world.model.settled()
        await asyncio.sleep(0.01)
        assert len(world.model.versions) < 40

    asyncio.run(main())


def test_the_same_number_in_another_place_takes_over_when_it_is_loaded() -> None:
    async def main() -> None:
        world = World()
        await world.want(1)
        old = world.model.latest()
        world.model.want({1: "/elsewhere/1"})
        await world.model.settled()
        await asyncio.sleep(0.01)
        assert world.events == ["+1", "+1", "-1"]
        assert world.model.latest() is not old
        world.broken.add(1)
        world.model.want({1: "/broken/1"})
        await world.model.settled()
        assert world.states() == {1: "AVAILABLE"}
        assert "1 is broken" in world.model.versions[1].error.text

    asyncio.run(main())


def test_a_model_that_is_retired_while_its_directory_is_read_stays_away(tmp_path) -> None:
    (tmp_path / "1").mkdir()

    async def main() -> None:
        world = World()
        world.model.configure(ModelSettings("m", str(tmp_path)))
        await world.model.poll()
        await world.model.settled()
        reading = asyncio.create_task(world.model.poll())
        await asyncio.sleep(0)
        world.model.retire()
        await reading
        await world.model.settled()
        await asyncio.sleep(0.01)
        assert world.events == ["+1", "-1"]

    asyncio.run(main())


@pytest.mark.parametrize("retries", [0, 3])
def test_a_version_whose_files_come_late_is_tried_again(tmp_path, retries: int) -> None:
    """As when it is copied into its place."""
    (tmp_path / "1").mkdir()

    async def main() -> None:
        world = World(retries=retries, pause=60.0)
        world.broken.add(1)
        model = world.model
        model.configure(ModelSettings("m", str(tmp_path)))
        await model.poll()
        await model.one_available_or_failed()
        await model.poll()
        assert not model.is_available()
        (tmp_path / "1" / "saved_model.pb").write_text("now it is there")
        world.broken.clear()
        await model.poll()
        await model.settled()
        assert model.is_available(1)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_version_that_would_do_harm_is_not_tried_again() -> None:
    async def main() -> None:
        world = World(retries=5)
        checked = []

        async def check(name: str, path: str) -> None:
            checked.append(path)
            raise VersionRefused(10, f"{path} would do harm")

        await world.want(1)
        world.model._loading = dataclasses.replace(world.model._loading, check=check)
        await world.want(1, 2)
        assert checked == ["/m/2"]
        assert world.states() == {1: "AVAILABLE", 2: "END"}
        assert world.model.versions[2].error.text == "/m/2 would do harm"
        assert world.model.latest().number == 1

    asyncio.run(main())


@pytest.mark.parametrize("stays", [True, False])
def test_a_newer_version_does_not_wait_for_the_check_of_an_older_one(stays: bool) -> None:
    async def main() -> None:
        world = World()
        may_end = asyncio.Event()
        checked = []

        async def check(name: str, path: str) -> None:
            checked.append(path)
            if path == "/m/1":
                await may_end.wait()

        world.model._loading = dataclasses.replace(world.model._loading, check=check)
        world.model.want({1: "/m/1"})
        while not checked:
            await asyncio.sleep(0.01)
        world.model.want({1: "/m/1", 2: "/m/2"} if stays else {2: "/m/2"})
        while not world.model.is_available(2):
            await asyncio.sleep(0.01)
        may_end.set()
        await world.model.settled()
        assert world.states() == {1: "AVAILABLE" if stays else "END", 2: "AVAILABLE"}
        assert world.events == (["+2", "+1"] if stays else ["+2"])

    asyncio.run(main())
