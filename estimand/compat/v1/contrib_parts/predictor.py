"""`tf.contrib.predictor`: a function that answers from memory.

Of a SavedModel it is the model with its variables loaded once; of an Estimator, the Estimator.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def from_saved_model(
    export_dir: str,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Any = None,
    output_names: Any = None,
    tags: Any = None,
    graph: Any = None,
    config: Any = None,
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from a dict of inputs to a dict of outputs, both NumPy arrays."""
    del signature_def, input_names, output_names, graph, config
    tags = tags.split(",") if isinstance(tags, str) else tags or [tf.saved_model.SERVING]
    loaded = tf.saved_model.load(tf.compat.as_str_any(export_dir), tags=list(tags))
    key = signature_def_key or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    signature = loaded.signatures[key]
    specs = signature.structured_input_signature[1]

    def predict(inputs: dict[str, Any]) -> dict[str, Any]:
        tensors = {k: tf.convert_to_tensor(v, specs[k].dtype) for k, v in inputs.items()}
        return {k: v.numpy() for k, v in signature(**tensors).items()}

    predict.model = loaded  # type: ignore[attr-defined] # keeps the variables alive
    return predict


def from_estimator(
    estimator: Any, serving_input_receiver_fn: Callable[[], Any], output_key: str | None = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same for an Estimator's latest checkpoint."""
    export = estimator.export_saved_model(tempfile.mkdtemp(), serving_input_receiver_fn)
    return from_saved_model(tf.compat.as_str_any(export), output_key)
