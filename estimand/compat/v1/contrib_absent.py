"""What programs import of contrib, and is not there: it fails when it is used, not before.

Programs import at their top what only some of their ways need: `contrib.quantize` for models that
are quantized, an optimizer among ten for whoever chooses it. A program that catches the error of
such an import has a way to do without, and gets the error.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import FrameType
from typing import Any, NoReturn

from estimand.compat import detection

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
# Those that stand between a program and what it imports.
_BETWEEN = ("importlib.", "_frozen_importlib", "estimand.compat.")
# The parts that TensorFlow 1.15 had; any other name is a mistake.
_PARTS = (
    "all_reduce autograph batching bayesflow bigtable boosted_trees checkpoint cloud "
    "cluster_resolver coder compiler constrained_optimization copy_graph crf cudnn_rnn data "
    "deprecated distribute distributions eager estimator factorization feature_column ffmpeg "
    "framework fused_conv gan graph_editor grid_rnn hadoop hooks ignite image input_pipeline "
    "integrate kafka keras kernel_methods kfac kinesis labeled_tensor layers learn legacy_seq2seq "
    "libsvm linear_optimizer lite lookup losses memory_stats metrics mixed_precision model_pruning "
    "mpi_collectives nccl nearest_neighbor nn opt optimizer_v2 periodic_resample predictor proto "
    "quantization quantize receptive_field recurrent reduce_slice_ops remote_fused_graph resampler "
    "rnn rpc saved_model seq2seq session_bundle signal slim solvers sparsemax specs staging "
    "stat_summarizer stateless summary tensor_forest tensorboard tensorrt testing text tfprof "
    "timeseries tpu training util verbs "
)
PARTS = frozenset(_PARTS.split())


class AbsentName:
    """Stands for a function or a class that there is not, until somebody uses it."""

    def __init__(self, told: str) -> None:
        self._told = told

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AttributeError(self._told)

    __call__ = _refuse
    __mro_entries__ = _refuse  # somebody derives a class from it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # asked by Python and its tools, not by the program
        self._refuse()

    def __instancecheck__(self, instance: object) -> bool:
        return False


def is_imported_at_any_rate() -> bool:
    """Whether a statement of a program that imports something is being run, and not in a `try`."""
    frame: FrameType | None = sys._getframe(1)
    by_importing = False
    while frame is not None and _is_between(frame):
        by_importing = by_importing or frame.f_code.co_name in ("_handle_fromlist", "_find_spec")
        frame = frame.f_back
    if frame is None:
        return False
    by_importing = by_importing or frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
    return by_importing and is_untried(frame)


def is_untried(frame: FrameType) -> bool:
    """Whether the statement that a frame runs imports something, and not in a `try`."""
    return frame.f_lineno in _lines_that_import(frame.f_code.co_filename)


def _is_between(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(_BETWEEN)


@functools.cache
def _lines_that_import(path: str) -> frozenset[int]:
    """The lines of statements that import and are not tried; none if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return detection.lines_that_import(file.read())
    except (OSError, UnicodeDecodeError):
        return frozenset()
