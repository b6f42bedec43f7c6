"""Who tries a version, who is told, and what becomes of it when somebody dies."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from estimand.core.errors import ConfigError
from estimand.serving.flags import Flags
from estimand.serving.probing import bounds, host, trial
from estimand.serving.probing import prober as prober_module
from estimand.serving.probing.prober import Host, Prober
from estimand.serving.probing.verdicts import (
    Claim,
    Verdict,
    Verdicts,
    VersionRefused,
    fingerprint,
)
from tests.serving import making

HARMFUL = Verdict(code="ABORTED", text="was ended by signal 11")


def test_what_a_dead_worker_was_trying_another_tries() -> None:
    async def main() -> None:
        verdicts = Verdicts()
        assert (await verdicts.claim("key", "first")).is_yours
        assert await verdicts.claim("key", "second") == Claim()
        await verdicts.has_died("first", "")
        assert (await verdicts.claim("key", "second")).is_yours
        await verdicts.release("key", "first")  # a late word of the dead one
        assert await verdicts.claim("key", "third") == Claim()

    asyncio.run(main())


def test_what_a_worker_was_loading_when_it_crashed_is_refused() -> None:
    async def main() -> None:
        verdicts = Verdicts()
        await verdicts.settle("loaded", Verdict())
        await verdicts.settle("loading", Verdict())
        for key in ("loaded", "loading"):
            await verdicts.loading(key, True, "worker")
        await verdicts.loading("loaded", False, "worker")
        await verdicts.loading("loading", True, "other")
        await verdicts.has_died("worker", "was worker 0, which signal 11 ended")
        assert (await verdicts.claim("loaded")).verdict == Verdict()
        assert (await verdicts.claim("loading")).verdict.code == "ABORTED"

    asyncio.run(main())


def test_a_worker_that_answers_while_it_loads_may_have_died_of_what_it_answered() -> None:
    async def main() -> list[bool]:
        verdicts, found = Verdicts(), []
        for was_answering in (True, True):
            await verdicts.loading("key", True, "worker")
            await verdicts.has_died("worker", "was worker 0", was_answering)
            found.append((await verdicts.claim("key")).verdict is not None)
            await verdicts.release("key")
        return found

    assert asyncio.run(main()) == [False, True]


def test_a_worker_that_is_killed_from_outside_has_nothing_to_blame() -> None:
    async def main() -> None:
        verdicts = Verdicts()
        await verdicts.settle("loading", Verdict())
        await verdicts.loading("loading", True, "worker")
        await verdicts.has_died("worker", "")
        assert (await verdicts.claim("loading")).verdict == Verdict()

    asyncio.run(main())


def test_the_fingerprint_follows_every_file(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"1")
    first = fingerprint("tensorflow", str(tmp_path))
    assert fingerprint("tensorflow", str(tmp_path)) == first
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"2")
    second = fingerprint("tensorflow", str(tmp_path))
    os.utime(tmp_path / "saved_model.pb", ns=(1, 1))
    third = fingerprint("tensorflow", str(tmp_path))
    assert len({first, second, third}) == 3


class Asked(Prober):
    """A prober whose trials are written down."""

    def __init__(self, memory: Verdicts, *answers: Verdict | None) -> None:
        super().__init__(Flags(), None, memory)
        self.trials: list[bool] = []
        self._answers = list(answers)

    async def _ask(self, platform: str, path: str, single_threaded: bool) -> Verdict | None:
        self.trials.append(single_threaded)
        await asyncio.sleep(0.01)
        return self._answers.pop(0)


def test_all_who_ask_at_once_are_told_by_one_trial(tmp_path: Path) -> None:
    async def main() -> None:
        memory = Verdicts()
        first, second = Asked(memory, Verdict()), Asked(memory, Verdict())
        asked = (prober.check("tensorflow", str(tmp_path)) for prober in (first, second))
        told = await asyncio.gather(*asked)
        assert told == [True, True]
        assert first.trials + second.trials == [True]  # of whoever comes first

    asyncio.run(main())


def test_what_dies_with_one_executor_is_tried_with_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        prober = Asked(Verdicts(), HARMFUL, Verdict(single_threaded=False))
        assert await prober.check("tensorflow", str(tmp_path)) is False
        assert prober.trials == [True, False]

    asyncio.run(main())


def test_what_dies_with_both_is_refused_and_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        prober = Asked(Verdicts(), HARMFUL, HARMFUL)
        for _ in range(2):
            with pytest.raises(VersionRefused, match="was ended by signal 11"):
                await prober.check("tensorflow", str(tmp_path))
        assert prober.trials == [True, False]

    asyncio.run(main())


def test_an_error_is_left_to_the_load_and_not_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        prober = Asked(Verdicts(), None, Verdict())
        assert await prober.check("tensorflow", str(tmp_path)) is True
        assert await prober.check("tensorflow", str(tmp_path)) is True
        assert prober.trials == [True, True]

    asyncio.run(main())


def test_a_trial_that_is_called_off_leaves_the_version_to_others(tmp_path: Path) -> None:
    async def main() -> None:
        memory = Verdicts()
        first, second = Asked(memory, Verdict()), Asked(memory, Verdict())
        check = asyncio.create_task(first.check("tensorflow", str(tmp_path)))
        while not first.trials:
            await asyncio.sleep(0.001)
        check.cancel()
        assert await second.check("tensorflow", str(tmp_path)) is True
        assert second.trials == [True]

    asyncio.run(main())


def test_versions_that_hang_do_not_keep_the_others_from_being_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober_module, "_SECONDS_OF_A_TURN", 0.01)
    hangs = asyncio.Event()

    class Hanging(Asked):
        async def _ask(self, platform: str, path: str, single_threaded: bool) -> Verdict | None:
            if "hangs" in path:
                await hangs.wait()
            return Verdict()

    async def main() -> None:
        prober = Hanging(Verdicts())
        stuck = [
            asyncio.create_task(prober.check("tensorflow", str(tmp_path / f"hangs{number}")))
            for number in range(5)
        ]
        assert await asyncio.wait_for(prober.check("tensorflow", str(tmp_path)), 20) is True
        hangs.set()
        assert await asyncio.gather(*stuck) == [True] * 5
        assert prober._slots._value == prober_module._AT_ONCE

    asyncio.run(main())


@pytest.mark.slow
def test_a_process_that_has_used_tensorflow_starts_another_for_trials(tmp_path: Path) -> None:
    making.write_two_inputs(tmp_path / "1")
    flags = Flags(model_base_path=str(tmp_path))

    async def main() -> None:
        prober = Prober(flags, Host.first(flags, process_is_fresh=False))
        try:
            assert await prober.check("tensorflow", str(tmp_path / "1")) is True
        finally:
            await prober.stop()

    asyncio.run(main())


def test_a_versions_own_batching_parameters_are_read_in_its_trial_first(tmp_path: Path) -> None:
    """They may be a pipe that nobody writes to, or a link to what never ends."""
    making.write_half_plus(tmp_path / "1", 2.0)
    (tmp_path / "1" / "batching_params.pbtxt").write_text("nonsense {")
    own = {"enable_batching": True, "enable_per_model_batching_parameters": True}
    path = str(tmp_path / "1")
    with pytest.raises(ConfigError, match="Error parsing text-format"):
        trial._try(Flags(model_base_path=str(tmp_path), **own), "tensorflow", path, True)


def test_memory_is_bounded_by_the_container(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 100\n")
    assert bounds._free_in_container(tmp_path) == 400
    (tmp_path / "memory.max").write_text("max\n")
    assert bounds._free_in_container(tmp_path) == float("inf")


def test_what_waits_for_the_processor_is_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version is not refused because the machine is busy; but it cannot wait for ever."""
    monkeypatch.setattr(host.time, "monotonic", lambda: 10.0)
    for waited, ends in ((0.0, 10.0), (4.0, 14.0), (1000.0, 60.0)):
        probe = host._Probe(1, "m", 2, seconds=10.0, began=0.0, ends=10.0, limit=1)
        monkeypatch.setattr(bounds, "seconds_without_processor", lambda _, s=waited: s)
        assert host._is_given_more(probe) == (waited > 0)
        assert probe.ends == ends
        assert not host._is_given_more(probe)  # it has not waited since


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not say")
def test_a_process_that_others_keep_from_running_is_seen_to_wait() -> None:
    assert bounds.seconds_without_processor(os.getpid()) > 0.0
    assert bounds.seconds_without_processor(2**22 + 1) == 0.0
