"""What the tests of canned models share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import estimand as est
from estimand.canned import optimizers
from tests.canned import cases

FIXTURES = Path(__file__).resolve().parent / "fixtures"


class Continued:
    """A model that the original trained, with what it said of it."""

    def __init__(self, name: str, directory: Path) -> None:
        self.case = cases.CASES[name]
        self.directory = str(shutil.copytree(FIXTURES / name / "model_dir", directory / name))
        self.expected = json.loads((FIXTURES / name / "expected.json").read_text())
        with np.load(FIXTURES / name / "predictions.npz") as predictions:
            self.predictions = dict(predictions)
        use = SimpleNamespace(estimator=est, v1=est.compat.v1, optimizers=optimizers)
        more = {"model_dir": self.directory, "config": est.RunConfig(tf_random_seed=1)}
        self.estimator = self.case.make(use, cases.columns(), more)

    def evaluate(self) -> dict[str, Any]:
        return self.estimator.evaluate(self.case.input_fn)

    def train(self, steps: int = cases.MORE_STEPS) -> None:
        self.estimator.train(lambda: self.case.input_fn(repeat=True), steps=steps)


@pytest.fixture
def continued(tmp_path: Path, request: pytest.FixtureRequest) -> Continued:
    """The case named by an indirect parameter."""
    return Continued(request.param, tmp_path)
