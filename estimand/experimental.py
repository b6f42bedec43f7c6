"""`est.experimental`: what `tf.estimator.experimental` had.

>>> import estimand as est
>>> est.experimental.stop_if_no_decrease_hook is est.early_stopping.stop_if_no_decrease_hook
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.interpreter.lazy_names import lazy_names

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

if TYPE_CHECKING:
    from estimand.canned.kmeans import KMeans as KMeans
    from estimand.canned.logit_fns import call_logit_fn as call_logit_fn
    from estimand.canned.logit_fns import dnn_logit_fn_builder as dnn_logit_fn_builder
    from estimand.canned.logit_fns import linear_logit_fn_builder as linear_logit_fn_builder
    from estimand.canned.rnn import RNNClassifier as RNNClassifier
    from estimand.canned.rnn import RNNEstimator as RNNEstimator
    from estimand.canned.sdca import LinearSDCA as LinearSDCA
    from estimand.estimator.in_memory_evaluator import (
        InMemoryEvaluatorHook as InMemoryEvaluatorHook,
    )
    from estimand.export.receivers import (
        build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
    )
    from estimand.hooks.early_stopping import make_early_stopping_hook as make_early_stopping_hook
    from estimand.hooks.early_stopping import (
        make_stop_at_checkpoint_step_hook as make_stop_at_checkpoint_step_hook,
    )
    from estimand.hooks.early_stopping import stop_if_higher_hook as stop_if_higher_hook
    from estimand.hooks.early_stopping import stop_if_lower_hook as stop_if_lower_hook
    from estimand.hooks.early_stopping import stop_if_no_decrease_hook as stop_if_no_decrease_hook
    from estimand.hooks.early_stopping import stop_if_no_increase_hook as stop_if_no_increase_hook
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
