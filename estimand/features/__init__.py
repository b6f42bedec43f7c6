"""Feature columns: from raw features to dense tensors, parse specs and linear models."""

from __future__ import annotations

from estimand.features.layers import input_layer, linear_model, sequence_input_layer
from estimand.features.oov import Unknown, out_of_vocabulary
from estimand.features.parsing import (
    classifier_parse_example_spec,
    feature_keys,
    make_parse_example_spec,
    regressor_parse_example_spec,
)
from estimand.features.path import fast_path, fast_path_enabled

__all__ = [
    "Unknown",
    "classifier_parse_example_spec",
    "fast_path",
    "fast_path_enabled",
    "feature_keys",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "out_of_vocabulary",
    "regressor_parse_example_spec",
    "sequence_input_layer",
]
