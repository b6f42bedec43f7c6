"""Killed at random moments, an exporting process leaves whole versions only."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.export.loaded import reading
from tests.export.conftest import files_in
from tests.export.programs import export_without_end, model_fn, receiver_fn, train
from tests.integration import processes

KILLS = 30


def assert_whole(version: Path) -> None:
    """Everything is there and can be read; a version may be collected while we look at it."""
    copy = version.with_name(f"copy-{version.name}")
    try:
        shutil.copytree(version, copy)
    except (shutil.Error, FileNotFoundError):
        shutil.rmtree(copy, ignore_errors=True)
        assert not version.exists()
        return
    assert files_in(copy) >= {"saved_model.pb", "assets.extra/model_card.json"}
    assert reading.read_meta_graphs(str(copy))[0].signatures.keys() == {"serving_default"}
    assert tf.train.load_variable(str(copy / "variables/variables"), "w").shape == (2, 1)
    shutil.rmtree(copy)


@pytest.mark.slow
def test_kills_during_exports_leave_whole_versions_only(tmp_path: Path) -> None:
    model_dir, base, log = tmp_path / "model", tmp_path / "base", tmp_path / "log"
    base.mkdir()
    processes.run(train, str(model_dir), log=log)
    chance = random.Random(11)
    looked_at, cut_off = 0, 0

    def newest() -> str:
        return max((path.name for path in base.iterdir() if path.name.isdecimal()), default="")

    for _ in range(KILLS):
        before = newest()
        with processes.child(export_without_end, str(model_dir), str(base), log=log) as child:
            processes.wait_until(lambda: newest() > before, child)  # noqa: B023
            time.sleep(chance.random() * 0.1)
        cut_off += any(path.name.startswith("temp-") for path in base.iterdir())
        for version in base.iterdir():
            if version.name.isdecimal():
                assert_whole(version)
                looked_at += 1
    assert looked_at >= KILLS
    assert cut_off > 0, "no kill came while a version was being written"
    estimator = est.Estimator(model_fn, model_dir)
    with est.load_model(estimator.export_saved_model(base, receiver_fn)) as model:
        answer = model(x=[[1.0, 2.0]])["y"]
    weights = estimator.get_variable_value("w")
    np.testing.assert_allclose(answer, np.array([[1.0, 2.0]]) @ weights, rtol=1e-5)
    assert not [path.name for path in base.iterdir() if path.name.startswith("temp-")]
