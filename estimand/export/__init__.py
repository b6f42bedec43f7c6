"""`est.export`: what a served model is fed, what it answers, and how to load it.

>>> import estimand as est
>>> est.export.PredictOutput.__name__
'PredictOutput'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.interpreter.lazy_names import lazy_names

_OUTPUTS = "estimand.core.export_output"
_RECEIVERS = "estimand.export.receivers"
_CONVERTING = "estimand.export.converting"

# Public name -> the module where it lives. Lazily: who only loads a model needs no trainer.
_HOME = {
    "ClassificationOutput": _OUTPUTS,
    "EvalOutput": _OUTPUTS,
    "ExportOutput": _OUTPUTS,
    "PredictOutput": _OUTPUTS,
    "RegressionOutput": _OUTPUTS,
    "TrainOutput": _OUTPUTS,
    "ServingInputReceiver": _RECEIVERS,
    "SupervisedInputReceiver": _RECEIVERS,
    "TensorServingInputReceiver": _RECEIVERS,
    "UnsupervisedInputReceiver": _RECEIVERS,
    "build_parsing_serving_input_receiver_fn": _RECEIVERS,
    "build_raw_serving_input_receiver_fn": _RECEIVERS,
    "build_raw_supervised_input_receiver_fn": _RECEIVERS,
    "build_serving_input_receiver_fn_from_input_fn": "estimand.export.deriving",
    "build_supervised_input_receiver_fn_from_input_fn": _RECEIVERS,
    "to_frozen_graph": _CONVERTING,
    "to_onnx": _CONVERTING,
    "to_tflite": _CONVERTING,
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.core.export_output import ClassificationOutput as ClassificationOutput
    from estimand.core.export_output import EvalOutput as EvalOutput
    from estimand.core.export_output import ExportOutput as ExportOutput
    from estimand.core.export_output import PredictOutput as PredictOutput
    from estimand.core.export_output import RegressionOutput as RegressionOutput
    from estimand.core.export_output import TrainOutput as TrainOutput
    from estimand.export.converting import to_frozen_graph as to_frozen_graph
    from estimand.export.converting import to_onnx as to_onnx
    from estimand.export.converting import to_tflite as to_tflite
    from estimand.export.deriving import (
        build_serving_input_receiver_fn_from_input_fn as build_serving_input_receiver_fn_from_input_fn,  # noqa: E501
    )
    from estimand.export.receivers import ServingInputReceiver as ServingInputReceiver
    from estimand.export.receivers import SupervisedInputReceiver as SupervisedInputReceiver
    from estimand.export.receivers import TensorServingInputReceiver as TensorServingInputReceiver
    from estimand.export.receivers import UnsupervisedInputReceiver as UnsupervisedInputReceiver
    from estimand.export.receivers import (
        build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn,
    )
    from estimand.export.receivers import (
        build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn,
    )
    from estimand.export.receivers import (
        build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
    )
    from estimand.export.receivers import (
        build_supervised_input_receiver_fn_from_input_fn as build_supervised_input_receiver_fn_from_input_fn,  # noqa: E501
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
