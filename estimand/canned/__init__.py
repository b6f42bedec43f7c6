"""Models with no model function to write: linear, deep, wide and deep, baseline."""

from __future__ import annotations

from estimand.canned.baseline import BaselineClassifier, BaselineEstimator, BaselineRegressor
from estimand.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from estimand.canned.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from estimand.canned.linear import LinearClassifier, LinearEstimator, LinearRegressor

__all__ = [
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
]
