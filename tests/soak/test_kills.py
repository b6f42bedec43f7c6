"""A kill or two of each kind; `make soak` goes on with random ones for as long as asked."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.soak import kill_campaign, kinds

CONFIG = {"tf_random_seed": 5, "block_mode": "plain", "save_checkpoints_steps": 2}
SETTINGS: dict[str, Any] = {
    "config": CONFIG,
    "model": "v1 adam",
    "input": "slices",
    "batch": 8,
    "steps": 30,
    "drop_remainder": False,
    "synchronous": False,
}
CASES = {
    "train": (kinds.Training, {}, 2),
    "train without a seed": (
        kinds.Training,
        {
            "config": {"block_mode": "single_thread", "save_checkpoints_steps": 3},
            "model": "dnn",
            "input": "records",
        },
        2,  # with the first, the run that it is compared with branches off
    ),
    "train_and_evaluate": (
        kinds.TrainingAndEvaluation,
        {
            "config": {**CONFIG, "save_checkpoints_steps": 5},
            "model": "linear",
            "exporters": ["best", "latest", "final"],
            "evaluate_every": None,
            "steps": 20,
        },
        1,
    ),
    "export": (kinds.Exporting, {"input": "seeded", "steps": 2}, 1),
    "team": (kinds.Team, {"input": "seeded", "drop_remainder": True, "steps": 10}, 1),
    "served": (kinds.Served, {"config": {**CONFIG, "block_mode": "auto"}, "steps": 10}, 1),
}


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_killed_programs_end_as_if_nothing_had_happened(tmp_path: Path, name: str) -> None:
    kind, settings, kills = CASES[name]
    case = kind({**SETTINGS, **settings}, tmp_path / "case")
    case.prepare()
    case.run_killed(random.Random(name), kills)
    case.compare()


def test_settings_of_a_case_follow_from_its_number() -> None:
    for kind, _, _ in kinds.KINDS.values():
        drawn = [kind.draw(kill_campaign.chance_of(7, 3)) for _ in range(2)]
        assert drawn[0] == drawn[1]
    assert kinds.Training.draw(kill_campaign.chance_of(7, 4)) != drawn[0]
    assert sum(share for _, share, _ in kinds.KINDS.values()) == pytest.approx(1)


def test_what_differs_is_found(tmp_path: Path) -> None:
    """The comparison itself: another seed for the run that is compared with."""
    case = kinds.Training({**SETTINGS, "steps": 2}, tmp_path / "case")
    case.prepare()
    case.settings = {**case.settings, "config": {**CONFIG, "tf_random_seed": 6}}
    case.run_killed(random.Random(0), 0)
    with pytest.raises(kinds.Failed, match="variables differ"):
        case.compare()
