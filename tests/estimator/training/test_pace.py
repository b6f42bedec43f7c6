"""How often a run has news, however slow its steps are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from estimand.engine.progress.progress import Progress
from estimand.engine.running import loop
from estimand.evaluation import evaluation_loop
from tests.line import batches, endless, estimator


@pytest.fixture
def news(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The counts that the progress line was given."""
    counts: list[int] = []
    monkeypatch.setattr(Progress, "update", lambda self, step, *_: counts.append(step))
    return counts


def each_call_takes(seconds: float) -> Any:
    """In the place of the time module: the clock is read before and after each call."""
    readings = iter(range(10**6))
    return SimpleNamespace(perf_counter=lambda: seconds * next(readings))


def of_unknown_length() -> tf.data.Dataset:
    return batches().repeat(16).filter(lambda features, labels: True)


def test_an_evaluation_of_unknown_length_is_counted(
    tmp_path: Path, news: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_loop, "time", each_call_takes(0.25))
    estimator(tmp_path).evaluate(of_unknown_length)
    assert news == [1, 3, 7, 15, 31]  # and inside of the next call the 32 batches end


def test_slow_batches_of_an_evaluation_are_told_one_by_one(
    tmp_path: Path, news: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_loop, "time", each_call_takes(1.0))
    estimator(tmp_path).evaluate(endless, steps=4)
    assert news == [1, 2, 3, 4]


def test_the_next_evaluation_goes_on_with_the_pace_of_the_last(
    tmp_path: Path, news: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_loop, "time", each_call_takes(0.0))
    made = estimator(tmp_path)
    made.evaluate(lambda: batches().repeat(50))
    assert news == [1, 5, 21, 85, 100]
    made.evaluate(lambda: batches().repeat(50))
    assert news[5:] == [100]


def test_slow_steps_are_told_one_by_one(
    tmp_path: Path, news: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "time", each_call_takes(1.0))
    made = estimator(tmp_path, log_step_count_steps=None, save_summary_steps=None)
    made.train(endless, steps=4)
    assert news == [1, 2, 3, 4]
