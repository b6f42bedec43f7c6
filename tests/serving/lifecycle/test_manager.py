"""What a configuration leads to, with loads that do nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from estimand.serving.flags import Flags
from estimand.serving.lifecycle.config import ModelSettings, VersionPolicy
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.status import StatusError
from tests.serving.lifecycle.test_model import FakeVersion
from tests.serving.running import config_text


class World:
    """A manager of fake models: a directory with a number is a version."""

    def __init__(self, base: Path, **flags) -> None:
        self.base = base
        self.broken: set[str] = set()
        self.may_load = asyncio.Event()
        self.may_load.set()

        async def load(name: str, number: int, path: str) -> FakeVersion:
            await self.may_load.wait()
            if name in self.broken:
                raise OSError(f"{name} is broken")
            return FakeVersion(number, [])

        flags = {"file_system_poll_wait_seconds": 0, "max_num_load_retries": 0, **flags}
        self.manager = Manager(Flags(**flags))
        self.manager._loading = dataclasses.replace(self.manager._loading, load=load)

    def settings(self, **labels: dict[str, int]) -> dict[str, ModelSettings]:
        """Models by name, each with its labels, and with all versions that there are."""
        for name, of_model in labels.items():
            for number in of_model.values() or (1,):
                (self.base / name / str(number)).mkdir(parents=True, exist_ok=True)
        everything = VersionPolicy(latest=None)
        return {
            name: ModelSettings(name, str(self.base / name), everything, of_model)
            for name, of_model in labels.items()
        }


def in_world(base: Path, test: Callable[[World], Awaitable[None]], **flags) -> None:
    async def main() -> None:
        world = World(base, **flags)
        try:
            await test(world)
        finally:
            world.may_load.set()
            await world.manager.stop()

    asyncio.run(main())


def test_until_the_first_models_are_loaded_the_server_is_unavailable(tmp_path: Path) -> None:
    """Clients take NOT_FOUND with the word Servable for a server that is ready."""

    async def test(world: World) -> None:
        world.may_load.clear()
        world.manager.start(world.settings(m={"stable": 1}))
        for name, label in (("m", None), ("m", "stable"), ("nobody", None)):
            with pytest.raises(StatusError, match="still loading") as caught:
                world.manager.find(name, None, label)
            assert caught.value.name == "UNAVAILABLE"
            assert "Servable" not in caught.value.text
        world.may_load.set()
        await world.manager.first
        assert world.manager.find("m", None, "stable").number == 1
        with pytest.raises(StatusError, match=r"NOT_FOUND: Servable not found .*Latest\(nobody\)"):
            world.manager.find("nobody", None)

    in_world(tmp_path, test)


def test_a_model_that_fails_does_not_take_the_labels_of_others(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.broken.add("bad")
        world.manager.start(world.settings(bad={"stable": 1}, good={"stable": 1, "canary": 2}))
        await world.manager.first
        assert world.manager.find("good", None, "stable").number == 1
        assert world.manager.find("good", None, "canary").number == 2
        # It is mended: its label comes with it.
        world.broken.clear()
        (world.base / "bad" / "1").rename(world.base / "bad" / "away")
        await world.manager._poll_models()
        (world.base / "bad" / "away").rename(world.base / "bad" / "1")
        await world.manager._poll_models()
        await world.manager.models["bad"].settled()
        await world.manager._poll_models()
        assert world.manager.find("bad", None, "stable").number == 1

    in_world(tmp_path, test)


def test_a_look_at_the_disk_that_fails_is_not_the_last(tmp_path: Path, caplog) -> None:
    async def test(world: World) -> None:
        looks = []

        async def look() -> None:
            looks.append(1)
            raise RecursionError("a file that nobody has thought of")

        world.manager._repeat(0.001, look)
        while len(looks) < 3:
            await asyncio.sleep(0.001)

    in_world(tmp_path, test)
    assert "look failed" in caplog.text


def test_what_came_by_call_stays_until_the_file_changes(tmp_path: Path) -> None:
    config = tmp_path / "models.config"

    async def test(world: World) -> None:
        world.settings(a={}, b={})
        config.write_text(config_text({"a": str(tmp_path / "a")}))
        world.manager.start(world.settings(a={}))
        await world.manager.first
        await world.manager._poll_config()  # the same models, written in another way
        await world.manager.reload(world.settings(a={}, b={}))
        await world.manager._poll_config()
        assert world.manager.find("b", None).number == 1
        config.write_text(config_text({"b": str(tmp_path / "b")}))
        await world.manager._poll_config()
        assert list(world.manager.settings) == ["b"]

    in_world(tmp_path, test, model_config_file=str(config))
