"""One model: its versions, the states they are in, and how one gives way to another.

A version goes START, LOADING, AVAILABLE, UNLOADING, END. All of this runs in the event loop;
loading and unloading themselves run on threads.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from estimand.serving.lifecycle import base_paths
from estimand.serving.lifecycle.config import ModelSettings
from estimand.serving.models import disk
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.probing.verdicts import VersionRefused
from estimand.serving.status import StatusError, from_exception, not_found

log = logging.getLogger("estimand.serving")
_MAX_ENDED = 32  # versions that are gone stay listed, but not without end
_LOOK_SECONDS = 0.2  # between two looks at whether a version that is not there yet is wanted still


class State(enum.IntEnum):
    """With the numbers of ModelVersionStatus.State."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass
class Version:
    """A version and what is known of it."""

    number: int
    path: str
    state: State = State.START
    error: StatusError | None = None
    loaded: LoadedVersion | None = None
    contents: Any = None  # of its directory, when it was last tried
    is_changed: bool = False  # since then: to be tried without a pause


@dataclass(frozen=True)
class Loading:
    """What is needed to load versions, shared by all models."""

    load: Callable[[str, int, str], Awaitable[LoadedVersion]]  # name, version, path
    in_thread: Callable[..., Any]  # awaitable of a blocking call
    retries: int = 5
    retry_seconds: float = 60.0
    unload_first: bool = False
    # Whether it may be loaded at all, by name and path: an exception if not. It can be cancelled.
    check: Callable[[str, str], Coroutine[Any, Any, None]] | None = None
    # Told of each that can be used: name, version, seconds that it took.
    tell_ready: Callable[[str, int, float], object] = lambda *_: None


class Model:
    def __init__(self, settings: ModelSettings, loading: Loading) -> None:
        self.settings = settings
        self.versions: dict[int, Version] = {}
        self.labels: dict[str, int] = {}
        self._loading = loading
        self._wanted: dict[int, str] = {}
        self._available: list[int] = []  # ascending
        self._changed = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._unloads: set[asyncio.Task[None]] = set()
        self._warned = ""
        self._is_retired = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def problem(self) -> str:
        """What is wrong with its directory; empty if nothing is."""
        return self._warned

    # ------------------------------------------------------------ finding a version

    def latest(self) -> LoadedVersion:
        if not self._available:
            raise not_found(f"Servable not found for request: Latest({self.name})")
        return self._loaded(self._available[-1])

    def specific(self, number: int) -> LoadedVersion:
        if number not in self._available:
            raise not_found(f"Servable not found for request: Specific({self.name}, {number})")
        return self._loaded(number)

    def _loaded(self, number: int) -> LoadedVersion:
        loaded = self.versions[number].loaded
        assert loaded is not None
        return loaded

    def is_available(self, number: int | None = None) -> bool:
        return bool(self._available) if number is None else number in self._available

    # ------------------------------------------------------------ wanting versions

    def configure(self, settings: ModelSettings) -> None:
        """Go where these settings lead, from the next `poll` on."""
        self.settings = settings
        self._is_retired = False

    def retire(self) -> None:
        """It is no longer configured: all versions go."""
        self._is_retired = True
        self.labels = {}
        self.want({})

    async def poll(self) -> None:
        """Look which versions are on disk, and start going where that leads."""
        settings = self.settings
        base = settings.base_path
        try:
            there = await self._loading.in_thread(disk.versions, base)
        except OSError as error:
            self._warn(f"Could not find base path {base} for servable {self.name}: {error}")
            return  # a file system that is away for a moment is no reason to unload
        if self._is_retired or self.settings is not settings:
            return  # that was decided while the disk was looked at
        if not there:
            advice = base_paths.advice(base) or (
                "Did you forget to name your leaf directory as a number (eg. '/1/')?"
            )
            self._warn(
                f"No versions of servable {self.name} found under base path {base}. {advice}"
            )
        else:
            self._warned = ""
        self.want({number: there[number] for number in settings.policy.choose(set(there))})
        await self._look_at_failed()

    async def _look_at_failed(self) -> None:
        """Those that were found before all of their files were there: try them again."""
        for number, path in list(self._wanted.items()):
            version = self.versions.get(number)
            if version is None or version.error is None or version.state is State.AVAILABLE:
                continue
            if await self._loading.in_thread(disk.contents, path) == version.contents:
                continue
            version.is_changed = True
            is_current = self.versions.get(number) is version and number in self._wanted
            if version.state is State.END and is_current:
                self.versions[number] = Version(number, path)
                self._wake()

    def want(self, wanted: dict[int, str]) -> None:
        if wanted == self._wanted and all(number in self.versions for number in wanted):
            return
        self._wanted = wanted
        for number in sorted(wanted):
            old = self.versions.get(number)
            ended = old is not None and old.state is State.END
            if old is None or (ended and (old.error is None or old.path != wanted[number])):
                self.versions[number] = Version(number, wanted[number])
            elif old.state is State.START:
                old.path = wanted[number]
        for number, version in list(self.versions.items()):
            # A version that failed may be tried again when it has been away.
            if version.state is State.END and version.error and number not in wanted:
                version.error = None
        self._forget_ended()
        self._wake()

    async def stop(self) -> None:
        """Unload everything."""
        self.want({})
        await self.settled()
        while self._unloads:
            await asyncio.gather(*self._unloads, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until every wanted version is loaded or has failed."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])

    async def one_available_or_failed(self) -> None:
        """Wait until a version can be used, the newest one has failed, or there is none."""
        while not self._available:
            newest = self.versions.get(max(self._wanted, default=-1))
            if newest is None or newest.error is not None:
                return
            self._changed.clear()
            await self._changed.wait()

    # ------------------------------------------------------------ going there

    def _wake(self) -> None:
        self._changed.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name=f"versions of {self.name}")

    async def _work(self) -> None:
        while (step := self._next_step()) is not None:
            await step

    def _next_step(self) -> Any:
        unwanted = [number for number in self._available if number not in self._wanted]
        fresh = [n for n in self._wanted if self.versions[n].state is State.START]
        ready = any(number in self._wanted for number in self._available)
        may_unload = self._loading.unload_first or ready or not self._wanted
        if unwanted and may_unload:
            return self._unload(self.versions[min(unwanted)])
        moved = [n for n in self._available if self.versions[n].path != self._wanted.get(n)]
        if moved and ready:
            step = self._unload if self._loading.unload_first else self._replace
            return step(self.versions[max(moved)])
        if self._loading.unload_first and self._unloads and fresh:
            return asyncio.wait(list(self._unloads))
        if fresh:
            return self._load(self.versions[max(fresh)])
        return None

    async def _load(self, version: Version) -> None:
        self._enter(version, State.LOADING)
        started = time.monotonic()
        tries = self._loading.retries + 1
        for attempt in range(tries):
            version.contents = await self._loading.in_thread(disk.contents, version.path)
            version.is_changed = False
            try:
                if not await self._is_checked(version):
                    self._enter(version, State.START if self._wants(version) else State.END)
                    return
                version.loaded = await self._loading.load(self.name, version.number, version.path)
            except Exception as error:
                version.error = from_exception(error)
                log.warning("%s version %d failed to load: %s", self.name, version.number, error)
                self._changed.set()
            else:
                version.error = None
                self._available = sorted([*self._available, version.number])
                self._enter(version, State.AVAILABLE)
                self._loading.tell_ready(self.name, version.number, time.monotonic() - started)
                return
            is_final = isinstance(version.error, VersionRefused)
            if is_final or attempt + 1 == tries or not await self._pause(version):
                break
        self._enter(version, State.END)

    async def _is_checked(self, version: Version) -> bool:
        """False if it is another version's turn meanwhile."""
        if self._loading.check is None:
            return True
        check = asyncio.create_task(self._loading.check(self.name, version.path))
        try:
            while not (await asyncio.wait([check], timeout=_LOOK_SECONDS))[0]:
                if not self._wants(version) or self._has_newer(version):
                    return False
        finally:
            if not check.done():
                check.cancel()
                await asyncio.wait([check])
        check.result()
        return True

    def _wants(self, version: Version) -> bool:
        return version.number in self._wanted

    def _has_newer(self, version: Version) -> bool:
        """One that must not wait until this one is given up."""
        fresh = (n for n in self._wanted if self.versions[n].state is State.START)
        return any(n > version.number for n in fresh)

    async def _pause(self, version: Version) -> bool:
        """Wait before the next try. False if the version is no longer wanted."""
        ends = asyncio.get_running_loop().time() + self._loading.retry_seconds
        while self._wants(version):
            left = ends - asyncio.get_running_loop().time()
            if left <= 0 or version.is_changed:
                return True
            if self._has_newer(version):
                return False
            await asyncio.sleep(min(left, _LOOK_SECONDS))
        return False

    async def _replace(self, version: Version) -> None:
        """The same number, now somewhere else: that takes over when it is loaded."""
        before, version.path = version.path, self._wanted[version.number]
        old = version.loaded
        try:
            if self._loading.check is not None:
                await self._loading.check(self.name, version.path)
            version.loaded = await self._loading.load(self.name, version.number, version.path)
        except Exception as error:
            version.error = from_exception(error)
            log.warning(
                "%s version %d failed to load from %s, and %s stays: %s",
                *(self.name, version.number, version.path, before, error),
            )
            return
        version.error = None
        log.info("%s version %d: now from %s", self.name, version.number, version.path)
        if old is not None:
            self._in_background(self._close(old))

    async def _unload(self, version: Version) -> None:
        self._available.remove(version.number)
        self._enter(version, State.UNLOADING)
        self._in_background(self._end(version))

    def _in_background(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending, name=f"unload {self.name}")
        self._unloads.add(task)
        task.add_done_callback(self._unloads.discard)

    async def _close(self, loaded: LoadedVersion) -> None:
        await loaded.unused()
        await self._loading.in_thread(loaded.close)

    async def _end(self, version: Version) -> None:
        loaded, version.loaded = version.loaded, None
        if loaded is not None:
            await self._close(loaded)
        self._enter(version, State.END)
        if version.number in self._wanted:  # came back while it was being unloaded
            self.versions[version.number] = Version(version.number, self._wanted[version.number])
            self._wake()

    def _enter(self, version: Version, state: State) -> None:
        version.state = state
        log.info("%s version %d: %s", self.name, version.number, state.name)
        self._changed.set()

    def _forget_ended(self) -> None:
        ended = [
            number
            for number, version in self.versions.items()
            if version.state is State.END and number not in self._wanted
        ]
        for number in sorted(ended)[:-_MAX_ENDED]:
            del self.versions[number]

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            log.warning("%s", text)
