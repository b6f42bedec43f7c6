"""From a version's directory to what answers: a SavedModel, a TFLite model or a custom servable."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from estimand.serving.flags import TENSORFLOW, Flags
from estimand.serving.models import custom_ops
from estimand.serving.models.custom import CustomAdapter, find_class
from estimand.serving.models.servable import Servable
from estimand.serving.models.sessions import LoadOptions
from estimand.serving.models.tflite import MODEL_FILE, TfliteModel
from estimand.serving.protos import text_protos
from estimand.serving.status import not_found

# An export with this file says that its rows do not depend on each other.
STATEMENT = os.path.join("assets.extra", "rows_are_independent")
_SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")


def own_batching_parameters(flags: Flags, path: str) -> Any:
    """A version's BatchingParameters, if it may have and has some; else None."""
    file = os.path.join(path, "batching_params.pbtxt")
    may_have = flags.enable_batching and flags.enable_per_model_batching_parameters
    return text_protos.read_batching_parameters(file) if may_have and os.path.exists(file) else None


class ServableLoader:
    """What the flags say of it, looked up once; ConfigError if they name what is not there."""

    def __init__(self, flags: Flags) -> None:
        self._custom = {name: find_class(name) for name in flags.servable}
        custom_ops.load(flags.load_op_library)
        self._prefers_tflite = flags.prefer_tflite_model or flags.use_tflite_model
        self._options = LoadOptions(
            tuple(flags.saved_model_tags.split(",")),
            flags.tensorflow_intra_op_parallelism or flags.tensorflow_session_parallelism,
            flags.tensorflow_inter_op_parallelism or flags.tensorflow_session_parallelism,
            text_protos.read_session_config(flags.tensorflow_session_config_file),
            run_seconds=flags.run_timeout_seconds,
        )

    def probes(self, platform: str) -> bool:
        """Whether a version is tried first. A class of the operator's own is as trusted as we."""
        return platform == TENSORFLOW

    def open(
        self, platform: str, path: str, single_threaded: bool = True, joins: bool = False
    ) -> Servable | CustomAdapter:
        """Blocks while it loads. `single_threaded`: whether that executor may be taken; `joins`:
        whether the operator says that rows do not depend on each other. The export may say so."""
        joins = joins or os.path.exists(os.path.join(path, STATEMENT))
        if platform != TENSORFLOW:
            return CustomAdapter(path, self._custom[platform], joins)
        if self._prefers_tflite and os.path.exists(os.path.join(path, MODEL_FILE)):
            return CustomAdapter(path, TfliteModel, joins)
        if "://" not in path and not any(
            os.path.exists(os.path.join(path, name)) for name in _SAVED_MODEL_FILES
        ):
            raise not_found(
                "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
                f"{path}. Check that the directory exists and that you have the right permissions "
                "for accessing it."
            )
        try:
            options = replace(
                self._options, single_threaded=single_threaded, rows_are_independent=joins
            )
            return Servable(path, options)
        except Exception as error:
            raise custom_ops.explained(error) or error from error
