"""Estimand: you write `input_fn` and `model_fn`; it trains, checkpoints, evaluates and predicts.

This file is the list of everything public. Nothing is loaded until it is used: `import estimand`
does not import TensorFlow.

>>> import estimand as est
>>> est.ModeKeys.TRAIN == "train"
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.version import __version__ as __version__

# Public name -> where it lives, "module:attribute"; without attribute, the module itself.
_HOME = {
    # the estimator and what it is given
    "Estimator": "estimand.estimator.estimator:Estimator",
    "EstimatorSpec": "estimand.core.spec:EstimatorSpec",
    "EvalSpec": "estimand.core.spec:EvalSpec",
    "Experiment": "estimand.estimator.lifecycle.experiment:Experiment",
    "HParams": "estimand.core.hparams:HParams",
    "ModeKeys": "estimand.core.modes:ModeKeys",
    "RunConfig": "estimand.core.config:RunConfig",
    "TrainSpec": "estimand.core.spec:TrainSpec",
    "VocabInfo": "estimand.engine.warm_start.apply:VocabInfo",
    "WarmStartSettings": "estimand.engine.warm_start.apply:WarmStartSettings",
    "add_metrics": "estimand.estimator.add_metrics:add_metrics",
    "evaluate_all": "estimand.estimator.lifecycle.evaluate_all:evaluate_all",
    "join_cluster": "estimand.cluster.joining:join_cluster",
    "train_and_evaluate": "estimand.estimator.lifecycle.train_and_evaluate:train_and_evaluate",
    # parsing tf.Examples
    "classifier_parse_example_spec": "estimand.features.parsing:classifier_parse_example_spec",
    "regressor_parse_example_spec": "estimand.features.parsing:regressor_parse_example_spec",
    # inside a model function
    "minimize": "estimand.engine.minimize:minimize",
    # canned models
    "BaselineClassifier": "estimand.canned:BaselineClassifier",
    "BaselineEstimator": "estimand.canned:BaselineEstimator",
    "BaselineRegressor": "estimand.canned:BaselineRegressor",
    "DNNClassifier": "estimand.canned:DNNClassifier",
    "DNNEstimator": "estimand.canned:DNNEstimator",
    "DNNLinearCombinedClassifier": "estimand.canned:DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator": "estimand.canned:DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor": "estimand.canned:DNNLinearCombinedRegressor",
    "DNNRegressor": "estimand.canned:DNNRegressor",
    "GradientBoostedTreesClassifier": "estimand.canned.forest:GradientBoostedTreesClassifier",
    "GradientBoostedTreesRegressor": "estimand.canned.forest:GradientBoostedTreesRegressor",
    "KMeans": "estimand.canned.kmeans:KMeans",
    "KNeighborsClassifier": "estimand.canned.neighbors:KNeighborsClassifier",
    "KNeighborsRegressor": "estimand.canned.neighbors:KNeighborsRegressor",
    "LinearClassifier": "estimand.canned:LinearClassifier",
    "LinearEstimator": "estimand.canned:LinearEstimator",
    "LinearRegressor": "estimand.canned:LinearRegressor",
    "RNNClassifier": "estimand.canned.rnn:RNNClassifier",
    "RNNEstimator": "estimand.canned.rnn:RNNEstimator",
    "RandomForestClassifier": "estimand.canned.forest:RandomForestClassifier",
    "RandomForestRegressor": "estimand.canned.forest:RandomForestRegressor",
    # heads
    "BinaryClassHead": "estimand.heads:BinaryClassHead",
    "Head": "estimand.heads:Head",
    "HingeHead": "estimand.heads:HingeHead",
    "LogisticRegressionHead": "estimand.heads:LogisticRegressionHead",
    "MultiClassHead": "estimand.heads:MultiClassHead",
    "MultiHead": "estimand.heads:MultiHead",
    "MultiLabelHead": "estimand.heads:MultiLabelHead",
    "PoissonRegressionHead": "estimand.heads:PoissonRegressionHead",
    "RegressionHead": "estimand.heads:RegressionHead",
    "SequentialHeadWrapper": "estimand.heads:SequentialHeadWrapper",
    # exporting and loading
    "BestExporter": "estimand.export.best:BestExporter",
    "Exporter": "estimand.export.exporters:Exporter",
    "FinalExporter": "estimand.export.exporters:FinalExporter",
    "LatestExporter": "estimand.export.exporters:LatestExporter",
    "StepsExporter": "estimand.export.exporters:StepsExporter",
    "explain": "estimand.explaining.explain:explain",
    "load_model": "estimand.export.loaded.loading:load_model",
    # hooks
    "CheckpointSaverHook": "estimand.hooks:CheckpointSaverHook",
    "CheckpointSaverListener": "estimand.hooks:CheckpointSaverListener",
    "FeedFnHook": "estimand.hooks:FeedFnHook",
    "FinalOpsHook": "estimand.hooks:FinalOpsHook",
    "GlobalStepWaiterHook": "estimand.hooks:GlobalStepWaiterHook",
    "LoggingTensorHook": "estimand.hooks:LoggingTensorHook",
    "NanLossDuringTrainingError": "estimand.hooks:NanLossDuringTrainingError",
    "NanTensorHook": "estimand.hooks:NanTensorHook",
    "ProfilerHook": "estimand.hooks:ProfilerHook",
    "SecondOrStepTimer": "estimand.hooks:SecondOrStepTimer",
    "SessionRunArgs": "estimand.hooks:SessionRunArgs",
    "SessionRunContext": "estimand.hooks:SessionRunContext",
    "SessionRunHook": "estimand.hooks:SessionRunHook",
    "SessionRunValues": "estimand.hooks:SessionRunValues",
    "StepCounterHook": "estimand.hooks:StepCounterHook",
    "StopAtStepHook": "estimand.hooks:StopAtStepHook",
    "SummarySaverHook": "estimand.hooks:SummarySaverHook",
    "every": "estimand.engine.hook_calls.cadence:every",
    # old code as it is
    "install": "estimand.compat.install:install",
    # modules
    "batch": "estimand.batch",
    "beam": "estimand.batch.beam",
    "compat": "estimand.compat",
    "early_stopping": "estimand.hooks.early_stopping",
    "errors": "estimand.core.errors",
    "experimental": "estimand.experimental",
    "export": "estimand.export",
    "feature_column": "estimand.features.feature_column",
    "fine_tuning": "estimand.bridge.fine_tuning",
    "heads": "estimand.heads",
    "hooks": "estimand.hooks",
    "inputs": "estimand.inputs",
    "keras": "estimand.bridge.keras",
    "learn_runner": "estimand.estimator.lifecycle.learn_runner",
    "records": "estimand.inputs.records",
    "report": "estimand.report",
    "serving": "estimand.serving",
    "sklearn": "estimand.sklearn",
    "tracking": "estimand.tracking",
    "tuning": "estimand.tuning",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    # The same list once more, in the form that type checkers and editors read.
    # tests/test_public_api.py keeps the two equal.
    from estimand import batch as batch
    from estimand import compat as compat
    from estimand import experimental as experimental
    from estimand import export as export
    from estimand import heads as heads
    from estimand import hooks as hooks
    from estimand import inputs as inputs
    from estimand import report as report
    from estimand import serving as serving
    from estimand import sklearn as sklearn
    from estimand import tracking as tracking
    from estimand import tuning as tuning
    from estimand.batch import beam as beam
    from estimand.bridge import fine_tuning as fine_tuning
    from estimand.bridge import keras as keras
    from estimand.canned import BaselineClassifier as BaselineClassifier
    from estimand.canned import BaselineEstimator as BaselineEstimator
    from estimand.canned import BaselineRegressor as BaselineRegressor
    from estimand.canned import DNNClassifier as DNNClassifier
    from estimand.canned import DNNEstimator as DNNEstimator
    from estimand.canned import DNNLinearCombinedClassifier as DNNLinearCombinedClassifier
    from estimand.canned import DNNLinearCombinedEstimator as DNNLinearCombinedEstimator
    from estimand.canned import DNNLinearCombinedRegressor as DNNLinearCombinedRegressor
    from estimand.canned import DNNRegressor as DNNRegressor
    from estimand.canned import LinearClassifier as LinearClassifier
    from estimand.canned import LinearEstimator as LinearEstimator
    from estimand.canned import LinearRegressor as LinearRegressor
    from estimand.canned.forest import (
        GradientBoostedTreesClassifier as GradientBoostedTreesClassifier,
    )
    from estimand.canned.forest import (
        GradientBoostedTreesRegressor as GradientBoostedTreesRegressor,
    )
    from estimand.canned.forest import RandomForestClassifier as RandomForestClassifier
    from estimand.canned.forest import RandomForestRegressor as RandomForestRegressor
    from estimand.canned.kmeans import KMeans as KMeans
    from estimand.canned.neighbors import KNeighborsClassifier as KNeighborsClassifier
    from estimand.canned.neighbors import KNeighborsRegressor as KNeighborsRegressor
    from estimand.canned.rnn import RNNClassifier as RNNClassifier
    from estimand.canned.rnn import RNNEstimator as RNNEstimator
    from estimand.cluster.joining import join_cluster as join_cluster
    from estimand.compat.install import install as install
    from estimand.core import errors as errors
    from estimand.core.config import RunConfig as RunConfig
    from estimand.core.hparams import HParams as HParams
    from estimand.core.modes import ModeKeys as ModeKeys
    from estimand.core.spec import EstimatorSpec as EstimatorSpec
    from estimand.core.spec import EvalSpec as EvalSpec
    from estimand.core.spec import TrainSpec as TrainSpec
    from estimand.engine.hook_calls.cadence import every as every
    from estimand.engine.minimize import minimize as minimize
    from estimand.engine.warm_start.apply import VocabInfo as VocabInfo
    from estimand.engine.warm_start.apply import WarmStartSettings as WarmStartSettings
    from estimand.estimator.add_metrics import add_metrics as add_metrics
    from estimand.estimator.estimator import Estimator as Estimator
    from estimand.estimator.lifecycle import learn_runner as learn_runner
    from estimand.estimator.lifecycle.evaluate_all import evaluate_all as evaluate_all
    from estimand.estimator.lifecycle.experiment import Experiment as Experiment
    from estimand.estimator.lifecycle.train_and_evaluate import (
        train_and_evaluate as train_and_evaluate,
    )
    from estimand.explaining.explain import explain as explain
    from estimand.export.best import BestExporter as BestExporter
    from estimand.export.exporters import Exporter as Exporter
    from estimand.export.exporters import FinalExporter as FinalExporter
    from estimand.export.exporters import LatestExporter as LatestExporter
    from estimand.export.exporters import StepsExporter as StepsExporter
    from estimand.export.loaded.loading import load_model as load_model
    from estimand.features import feature_column as feature_column
    from estimand.features.parsing import (
        classifier_parse_example_spec as classifier_parse_example_spec,
    )
    from estimand.features.parsing import (
        regressor_parse_example_spec as regressor_parse_example_spec,
    )
    from estimand.heads import BinaryClassHead as BinaryClassHead
    from estimand.heads import Head as Head
    from estimand.heads import HingeHead as HingeHead
    from estimand.heads import LogisticRegressionHead as LogisticRegressionHead
    from estimand.heads import MultiClassHead as MultiClassHead
    from estimand.heads import MultiHead as MultiHead
    from estimand.heads import MultiLabelHead as MultiLabelHead
    from estimand.heads import PoissonRegressionHead as PoissonRegressionHead
    from estimand.heads import RegressionHead as RegressionHead
    from estimand.heads import SequentialHeadWrapper as SequentialHeadWrapper
    from estimand.hooks import CheckpointSaverHook as CheckpointSaverHook
    from estimand.hooks import CheckpointSaverListener as CheckpointSaverListener
    from estimand.hooks import FeedFnHook as FeedFnHook
    from estimand.hooks import FinalOpsHook as FinalOpsHook
    from estimand.hooks import GlobalStepWaiterHook as GlobalStepWaiterHook
    from estimand.hooks import LoggingTensorHook as LoggingTensorHook
    from estimand.hooks import NanLossDuringTrainingError as NanLossDuringTrainingError
    from estimand.hooks import NanTensorHook as NanTensorHook
    from estimand.hooks import ProfilerHook as ProfilerHook
    from estimand.hooks import SecondOrStepTimer as SecondOrStepTimer
    from estimand.hooks import SessionRunArgs as SessionRunArgs
    from estimand.hooks import SessionRunContext as SessionRunContext
    from estimand.hooks import SessionRunHook as SessionRunHook
    from estimand.hooks import SessionRunValues as SessionRunValues
    from estimand.hooks import StepCounterHook as StepCounterHook
    from estimand.hooks import StopAtStepHook as StopAtStepHook
    from estimand.hooks import SummarySaverHook as SummarySaverHook
    from estimand.hooks import early_stopping as early_stopping
    from estimand.inputs import records as records
else:
    # Hidden from type checkers: to them a module with __getattr__ has every name, typos included.

    def __getattr__(name: str) -> object:
        import sys
        from importlib import import_module

        home = _HOME.get(name)
        if home is None:
            # With name and obj given, Python adds its own "Did you mean" to the traceback.
            removed = import_module("estimand.compat.removed")
            instead = removed.replacement(f"estimator.{name}")
            advice = f"in its place: {instead}" if instead else "dir(estimand) lists them all"
            raise AttributeError(
                f"estimand has no public name {name!r}; {advice}.",
                name=name,
                obj=sys.modules[__name__],
            )
        module_name, _, attribute = home.partition(":")
        value = import_module(module_name)
        if attribute:
            value = getattr(value, attribute)
        globals()[name] = value  # found the ordinary way from now on
        return value

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
