"""The metrics of heads: small objects with the face of a Keras metric.

They give the numbers of Keras' own to the last digits, but do without Keras, whose import alone
takes longer than a short evaluation, and build a fraction of its operations.
"""

from __future__ import annotations

from estimand.heads.metrics.auc import AUC
from estimand.heads.metrics.base import HeadMetric
from estimand.heads.metrics.ratios import (
    Accuracy,
    AccuracyBaseline,
    BinaryAccuracy,
    Mean,
    Precision,
    Recall,
)

__all__ = [
    "AUC",
    "Accuracy",
    "AccuracyBaseline",
    "BinaryAccuracy",
    "HeadMetric",
    "Mean",
    "Precision",
    "Recall",
]
