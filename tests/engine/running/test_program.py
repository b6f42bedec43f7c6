"""How many functions the steps of a run are compiled into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import estimand as est
from estimand.engine.running import program
from tests import line


class Looks(est.SessionRunHook):
    """At every step, at the same tensor."""

    def before_run(self, run_context: Any) -> est.SessionRunArgs:
        [loss] = run_context.session.graph.get_collection("losses")
        return est.SessionRunArgs(loss)


def test_step_of_which_the_batch_was_wanted_does_for_later_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    class Counted(program.Compiled):
        def __init__(self, *args: Any) -> None:
            compiled.append(args)
            super().__init__(*args)

    monkeypatch.setattr(program, "Compiled", Counted)
    config = est.RunConfig(
        str(tmp_path), block_mode="plain", log_step_count_steps=None, save_summary_steps=None
    )
    assert config.check_data  # looks at the first batch
    est.Estimator(line.model_fn, config=config).train(line.endless, steps=3, hooks=[Looks()])
    assert len(compiled) == 1
