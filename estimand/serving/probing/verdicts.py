"""How trials ended, remembered by what was tried: one trial for all who want to load a version."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from estimand.serving.models import disk
from estimand.serving.status import StatusError

_MOST = 4096  # versions that are remembered


@dataclass(frozen=True)
class Verdict:
    """Of one version. `code` and `text` say why it must not be loaded; without, it may be."""

    single_threaded: bool = True  # the executor that it survived with
    code: str = ""
    text: str = ""


class VersionRefused(StatusError):
    """It would do harm, and is not tried again until its files change."""


@dataclass(frozen=True)
class Claim:
    """The verdict; or, without one, whether it is up to the caller to find it."""

    verdict: Verdict | None = None
    is_yours: bool = False


class Memory(Protocol):
    """Where verdicts are kept. Who is told that a claim is his, settles or releases it."""

    async def claim(self, key: str) -> Claim: ...

    async def settle(self, key: str, verdict: Verdict) -> None: ...

    async def release(self, key: str) -> None: ...

    async def loading(self, key: str, has_begun: bool) -> None:
        """For who may die of it in spite of a good verdict."""


class Verdicts:
    """Those of this process, or of all its workers. What an owner holds goes when he dies.

    >>> import asyncio
    >>> async def main():
    ...     verdicts = Verdicts()
    ...     first, second = await verdicts.claim("key"), await verdicts.claim("key")
    ...     await verdicts.settle("key", Verdict(code="ABORTED"))
    ...     third = await verdicts.claim("key")
    ...     return first.is_yours, second.is_yours, third.verdict.code
    >>> asyncio.run(main())
    (True, False, 'ABORTED')
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, Verdict] = OrderedDict()
        self._claims: dict[str, object] = {}
        self._loading: dict[str, set[object]] = {}
        self._suspected: OrderedDict[str, None] = OrderedDict()

    async def claim(self, key: str, owner: object = None) -> Claim:
        if key in self._known:
            return Claim(self._known[key])
        if key in self._claims:
            return Claim()
        self._claims[key] = owner
        return Claim(is_yours=True)

    async def settle(self, key: str, verdict: Verdict) -> None:
        self._known[key] = verdict
        self._claims.pop(key, None)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    async def release(self, key: str, owner: object = None) -> None:
        if self._claims.get(key) is owner:
            self._claims.pop(key, None)

    async def loading(self, key: str, has_begun: bool, owner: object = None) -> None:
        if has_begun:
            self._loading.setdefault(key, set()).add(owner)
        elif key in self._loading:
            self._loading[key].discard(owner)
            if not self._loading[key]:
                del self._loading[key]

    async def has_died(self, owner: object, how: str, was_answering: bool = False) -> None:
        """`how` if it was a crash: then what it was just loading is to blame. If it was answering
        meanwhile, that may be what it died of; not so the second time."""
        for key, claimant in list(self._claims.items()):
            if claimant is owner:
                await self.release(key, owner)
        for key, owners in list(self._loading.items()):
            if owner in owners:
                await self.loading(key, False, owner)
                if how and was_answering and key not in self._suspected:
                    self._suspect(key)
                elif how:
                    await self.settle(key, Verdict(code="ABORTED", text=how))

    def _suspect(self, key: str) -> None:
        self._suspected[key] = None
        if len(self._suspected) > _MOST:
            self._suspected.popitem(last=False)


def fingerprint(kind: str, path: str) -> str:
    """Of what would be loaded: another one as soon as a file changes."""
    facts = repr((kind, path, disk.contents(path)))
    return hashlib.sha256(facts.encode("utf-8", "surrogateescape")).hexdigest()
