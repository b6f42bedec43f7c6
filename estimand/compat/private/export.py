"""Helpers of `tensorflow_estimator.python.estimator.export.export`."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core import spec_checks
from estimand.core.errors import ExportWriteError
from estimand.export import receivers, signatures

EXPORT_TAG_MAP = {mode: [tag] for mode, tag in signatures.TAGS.items()}
_ATTEMPTS = 10


def wrap_and_check_input_tensors(
    tensors: Any, field_name: str, allow_int_keys: bool = False
) -> dict[Any, Any]:
    """Tensors by key; a bare one gets the key that its kind has."""
    return receivers._named_tensors(tensors, field_name, integer_keys=allow_int_keys)


def export_outputs_for_mode(
    mode: str,
    serving_export_outputs: Any = None,
    predictions: Any = None,
    loss: Any = None,
    metrics: Any = None,
) -> Any:
    """The export outputs of a mode."""
    from estimand.core.export_output import EvalOutput, TrainOutput

    if mode == "infer":
        return spec_checks.checked_export_outputs(serving_export_outputs, predictions, mode)
    kind = TrainOutput if mode == "train" else EvalOutput
    return {mode: kind(loss=loss, predictions=predictions, metrics=metrics)}


def build_all_signature_defs(
    receiver_tensors: Any,
    export_outputs: Mapping[str, Any] | None,
    receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    serving_only: bool = True,
) -> dict[str, Any]:
    """Signatures by key: those of the outputs that the receivers can feed."""
    if not isinstance(receiver_tensors, Mapping):
        receiver_tensors = {"input": receiver_tensors}
    if export_outputs is None or not isinstance(export_outputs, Mapping):
        raise ValueError(f"export_outputs must be a dict and not {type(export_outputs)}.")
    exported: dict[str, Any] = {}
    sources: dict[Any, Any] = {None: receiver_tensors, **(receiver_tensors_alternatives or {})}
    for alternative, tensors in sources.items():
        if not isinstance(tensors, Mapping):
            tensors = {"input": tensors}
        for key, output in export_outputs.items():
            name = f"{alternative}:{key or 'None'}" if alternative else key
            # An output that these receivers cannot feed is left out, not an error.
            with contextlib.suppress(ValueError):
                exported[name] = output.as_signature_def(tensors)
    if not serving_only:
        return exported
    return {k: v for k, v in exported.items() if _is_for_serving(v)}


def _is_for_serving(signature: Any) -> bool:
    inputs = [tensor.dtype for tensor in signature.inputs.values()]
    if not inputs:
        return False
    if signature.method_name == tf.saved_model.PREDICT_METHOD_NAME:
        return True
    return len(inputs) == 1 and inputs[0] == tf.string.as_datatype_enum


def get_timestamped_export_dir(export_dir_base: str) -> bytes:
    """A directory below the base, named by the time, that does not exist yet."""
    for _ in range(_ATTEMPTS):
        path = os.path.join(os.fspath(export_dir_base), str(int(time.time())))
        if not tf.io.gfile.exists(path):
            return tf.compat.as_bytes(path)
        time.sleep(1)
    raise ExportWriteError(
        f"Failed to obtain a unique export directory name after {_ATTEMPTS} attempts."
    )


def get_temp_export_dir(timestamped_export_dir: str | bytes) -> bytes:
    """The directory beside it to write into first.

    >>> get_temp_export_dir("/exports/1700000000")
    b'/exports/temp-1700000000'
    """
    folder, name = os.path.split(tf.compat.as_bytes(timestamped_export_dir))
    return os.path.join(folder, b"temp-" + name)
