"""Which checkpoints are kept, as numbers alone."""

from __future__ import annotations

import pytest

from estimand.engine.checkpoints.keep_policy import KeepPolicy, Saved

HOUR = 3600.0


def saved_every_hour(count: int) -> list[Saved]:
    return [Saved(f"model.ckpt-{n}", n * HOUR) for n in range(count)]


def names(saved: tuple[Saved, ...]) -> list[str]:
    return [one.path for one in saved]


def test_newest_are_listed_and_the_rest_removed():
    decision = KeepPolicy(keep_max=2).decide(saved_every_hour(4), last_preserved=0.0)
    assert names(decision.listed) == ["model.ckpt-2", "model.ckpt-3"]
    assert names(decision.remove) == ["model.ckpt-0", "model.ckpt-1"]


@pytest.mark.parametrize("keep_max", [None, 0])
def test_without_a_maximum_all_are_listed(keep_max):
    decision = KeepPolicy(keep_max=keep_max).decide(saved_every_hour(40), last_preserved=0.0)
    assert len(decision.listed) == 40
    assert not decision.remove


def test_one_every_n_hours_is_kept_forever():
    policy = KeepPolicy(keep_max=1, keep_every_n_hours=1.5)
    decision = policy.decide(saved_every_hour(8), last_preserved=0.0)
    # Kept: 2 (2 h after the start), 4 (2 h after 2), 6. Not on either list: they stay.
    assert names(decision.remove) == [f"model.ckpt-{n}" for n in (0, 1, 3, 5)]
    assert names(decision.listed) == ["model.ckpt-7"]
    assert decision.last_preserved == 6 * HOUR


def test_protected_one_stays_listed_and_is_judged_later():
    policy = KeepPolicy(keep_max=1)
    saved = saved_every_hour(3)
    decision = policy.decide(saved, 0.0, protected={"model.ckpt-0"})
    assert names(decision.listed) == ["model.ckpt-0", "model.ckpt-2"]
    assert names(policy.decide(decision.listed, 0.0).remove) == ["model.ckpt-0"]
