"""`est.experimental`: what `tf.estimator.experimental` had.

>>> import estimand as est
>>> est.experimental.stop_if_no_decrease_hook is est.early_stopping.stop_if_no_decrease_hook
True
"""

from __future__ import annotations

from importlib import import_module

_EARLY_STOPPING = "estimand.hooks.early_stopping"

# Public name -> the module where it lives.
_HOME = {
    "KMeans": "estimand.canned.kmeans",
    "LinearSDCA": "estimand.canned.sdca",
    "RNNClassifier": "estimand.canned.rnn",
    "RNNEstimator": "estimand.canned.rnn",
    "call_logit_fn": "estimand.canned.logit_fns",
    "dnn_logit_fn_builder": "estimand.canned.logit_fns",
    "linear_logit_fn_builder": "estimand.canned.logit_fns",
    "InMemoryEvaluatorHook": "estimand.estimator.in_memory_evaluator",
    "build_raw_supervised_input_receiver_fn": "estimand.export.receivers",
    "make_early_stopping_hook": _EARLY_STOPPING,
    "make_stop_at_checkpoint_step_hook": _EARLY_STOPPING,
    "stop_if_higher_hook": _EARLY_STOPPING,
    "stop_if_lower_hook": _EARLY_STOPPING,
    "stop_if_no_decrease_hook": _EARLY_STOPPING,
    "stop_if_no_increase_hook": _EARLY_STOPPING,
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    # Lazily: importing this module must not import TensorFlow.
    if name not in _HOME:
        raise AttributeError(
            f"estimand.experimental has no public name {name!r}; it has: {', '.join(__all__)}."
        )
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
