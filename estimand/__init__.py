"""Estimand: you write `input_fn` and `model_fn`; it trains, checkpoints, evaluates and predicts.

This file is the list of everything public. Nothing is loaded until it is used: `import estimand`
does not import TensorFlow.

>>> import estimand as est
>>> est.ModeKeys.TRAIN == "train"
True
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for True; importing typing would cost milliseconds

# Public name -> where it lives, "module:attribute"; without attribute, the module itself.
_HOME = {
    # the estimator and what it is given
    "Estimator": "estimand.estimator.estimator:Estimator",
    "EstimatorSpec": "estimand.core.spec:EstimatorSpec",
    "EvalSpec": "estimand.core.spec:EvalSpec",
    "HParams": "estimand.core.hparams:HParams",
    "ModeKeys": "estimand.core.modes:ModeKeys",
    "RunConfig": "estimand.core.config:RunConfig",
    "TrainSpec": "estimand.core.spec:TrainSpec",
    "VocabInfo": "estimand.engine.warm_start:VocabInfo",
    "WarmStartSettings": "estimand.engine.warm_start:WarmStartSettings",
    # inside a model function
    "minimize": "estimand.engine.minimize:minimize",
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
    "every": "estimand.engine.cadence:every",
    # modules
    "compat": "estimand.compat",
    "errors": "estimand.core.errors",
    "hooks": "estimand.hooks",
    "inputs": "estimand.inputs",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    # The same list once more, in the form that type checkers and editors read.
    # tests/test_public_api.py keeps the two equal.
    from estimand import compat as compat
    from estimand import hooks as hooks
    from estimand import inputs as inputs
    from estimand.core import errors as errors
    from estimand.core.config import RunConfig as RunConfig
    from estimand.core.hparams import HParams as HParams
    from estimand.core.modes import ModeKeys as ModeKeys
    from estimand.core.spec import EstimatorSpec as EstimatorSpec
    from estimand.core.spec import EvalSpec as EvalSpec
    from estimand.core.spec import TrainSpec as TrainSpec
    from estimand.engine.cadence import every as every
    from estimand.engine.minimize import minimize as minimize
    from estimand.engine.warm_start import VocabInfo as VocabInfo
    from estimand.engine.warm_start import WarmStartSettings as WarmStartSettings
    from estimand.estimator.estimator import Estimator as Estimator
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
else:
    # Hidden from type checkers: to them a module with __getattr__ has every name, typos included.

    def __getattr__(name: str) -> object:
        import sys
        from importlib import import_module

        home = _HOME.get(name)
        if home is None:
            # With name and obj given, Python adds its own "Did you mean" to the traceback.
            raise AttributeError(
                f"estimand has no public name {name!r}; dir(estimand) lists them all.",
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
