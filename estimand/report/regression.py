"""How well a regression does: how far off it is, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Judged:
    """Numbers that were predicted beside the true ones."""

    truth: np.ndarray
    answer: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        return self.answer - self.truth

    @property
    def root_mean_square(self) -> float:
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def mean_absolute(self) -> float:
        return float(np.mean(np.abs(self.residuals)))

    @property
    def explained(self) -> float | None:
        """R²: 1 is perfect, 0 no better than always saying the mean."""
        spread = float(np.sum((self.truth - self.truth.mean()) ** 2))
        return 1 - float(np.sum(self.residuals**2)) / spread if spread else None

    @property
    def is_finite(self) -> np.ndarray:
        """Of each row, whether there is an answer: a model that diverged gives NaN."""
        return np.isfinite(self.residuals)

    def score(self) -> float:
        """A number to compare models by: the larger, the better."""
        return -self.root_mean_square


def judge(labels: np.ndarray, answers: Mapping[str, np.ndarray]) -> Judged | None:
    """The answers as those of a regression; None if they are not."""
    if labels.dtype.kind not in "iuf":
        return None
    keys = [key for key in ("predictions", "prediction") if key in answers]
    numeric = [key for key, value in answers.items() if value.dtype.kind in "iuf"]
    if not keys and len(numeric) == 1:
        keys = numeric
    if not keys:
        return None
    answer = answers[keys[0]].reshape(len(answers[keys[0]]), -1)
    if answer.shape[1] != 1:
        return None
    return Judged(labels.astype(np.float64), answer[:, 0].astype(np.float64))
