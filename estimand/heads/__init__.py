"""Heads: from logits to loss, predictions, metrics and export signatures."""

from __future__ import annotations

from estimand.heads.base import Head
from estimand.heads.binary_class import BinaryClassHead
from estimand.heads.choice import binary_or_multi_class_head
from estimand.heads.hinge import HingeHead
from estimand.heads.keys import MetricKeys, PredictionKeys
from estimand.heads.multi_class import MultiClassHead
from estimand.heads.multi_head import MultiHead
from estimand.heads.multi_label import MultiLabelHead
from estimand.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)
from estimand.heads.sequential import SequentialHeadWrapper

__all__ = [
    "BinaryClassHead",
    "Head",
    "HingeHead",
    "LogisticRegressionHead",
    "MetricKeys",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "PredictionKeys",
    "RegressionHead",
    "SequentialHeadWrapper",
    "binary_or_multi_class_head",
]
