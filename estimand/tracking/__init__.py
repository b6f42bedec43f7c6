"""Trainings in a tracker: a hook, and one small class for each tracker.

`hook.py` watches a training and tells a `Tracker`; `mlflow.py` and `wandb.py` are two of them. A
third one is a class with the five methods of `tracker.py`.
"""

from estimand.tracking.hook import TrackingHook as TrackingHook
from estimand.tracking.mlflow import MLflow as MLflow
from estimand.tracking.tracker import Tracker as Tracker
from estimand.tracking.wandb import WeightsAndBiases as WeightsAndBiases

__all__ = ["MLflow", "Tracker", "TrackingHook", "WeightsAndBiases"]
