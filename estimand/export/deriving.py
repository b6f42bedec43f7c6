"""A receiver from what a model was trained on: the same features, types and stand-ins.

Whoever writes a parse spec by hand says again what the input function says already, and is free
to say it differently: integers here and floats there, a blank that is filled in training and
refused by the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import SpecError
from estimand.core.modes import ModeKeys
from estimand.export.receivers import (
    ReceiverFn,
    ServingInputReceiver,
    TensorServingInputReceiver,
)
from estimand.features.checks import column_list, keys_of
from estimand.inputs.contract import ModelInput, call_input_fn


@dataclass(frozen=True)
class TrainedOn:
    """The features of an input: their types, and what stands for a missing one."""

    features: Any
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: ModelInput) -> TrainedOn:
        features, _ = given.element_spec
        defaults: dict[str, Any] = {}
        for source in given.sources:
            defaults |= getattr(source, "defaults", {})
        return cls(features, defaults)


def build_serving_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any],
    feature_columns: Iterable[Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    params: Any = None,
) -> ReceiverFn:
    """A receiver function for tf.Examples with the features that `input_fn` gives.

    Types and shapes are those of training, and so is what `csv_input_fn(column_defaults=...)`
    puts in the place of a missing value. Exporters that are given no receiver make this one.

    Args:
      input_fn: that of the training or the evaluation; it is called once, for its types.
      feature_columns: take only what these columns read. None: all features.
      defaults: by feature, what stands for a missing value; beside those that `input_fn` knows.
      params: given to `input_fn`, if it takes them.

    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"age": [31, 47]}, [0, 1]))
    >>> receiver_fn = build_serving_input_receiver_fn_from_input_fn(input_fn, defaults={"age": 40})
    >>> with tf.Graph().as_default():
    ...     receiver_fn().features["age"].dtype.name
    'int32'
    """
    given = call_input_fn(input_fn, mode=ModeKeys.EVAL, params=params, config=None)
    seen = TrainedOn.of(given)
    columns = None if feature_columns is None else column_list(feature_columns)
    return receiver_fn_for(TrainedOn(seen.features, {**seen.defaults, **(defaults or {})}), columns)


def receiver_fn_for(seen: TrainedOn, columns: Iterable[Any] | None = None) -> ReceiverFn:
    """A receiver function for what was seen; of it only what `columns` read, if there are any."""
    if not isinstance(seen.features, Mapping):
        return _for_one_tensor(seen.features)
    wanted = None if columns is None else {key for column in columns for key in keys_of(column)}
    specs = {k: v for k, v in seen.features.items() if wanted is None or k in wanted}
    parse = {name: _parse_spec(name, spec, seen.defaults.get(name)) for name, spec in specs.items()}

    def serving_input_receiver_fn() -> ServingInputReceiver:
        examples = tf.compat.v1.placeholder(tf.string, [None], name="input_example_tensor")
        parsed = tf.io.parse_example(examples, parse)
        features = {name: _as_trained(parsed[name], spec) for name, spec in specs.items()}
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def _for_one_tensor(spec: Any) -> ReceiverFn:
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        raise SpecError(
            f"No receiver can be derived from features of this kind: {spec}. Write one, and give "
            "it as serving_input_receiver_fn."
        )

    def serving_input_receiver_fn() -> TensorServingInputReceiver:
        shape = [None, *spec.shape.as_list()[1:]]
        given = tf.compat.v1.placeholder(spec.dtype, shape, name="input")
        return TensorServingInputReceiver(given, {"input": given})

    return serving_input_receiver_fn


def _parse_spec(name: str, spec: Any, default: Any) -> Any:
    dtype = getattr(spec, "dtype", None)
    stored = None if dtype is None else _stored(dtype)
    if stored is not None and isinstance(spec, tf.SparseTensorSpec):
        return tf.io.VarLenFeature(stored)
    if stored is not None and isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank == 1:
        return tf.io.RaggedFeature(stored, row_splits_dtype=spec.row_splits_dtype)
    shape = (
        spec.shape.as_list()[1:] if isinstance(spec, tf.TensorSpec) and spec.shape.rank else None
    )
    if stored is None or shape is None or None in shape:
        raise SpecError(
            f"No receiver can be derived: the feature {name!r} is {spec}, of which a tf.Example "
            "does not tell the shape. Write a receiver, and give it as serving_input_receiver_fn."
        )
    if default is not None:
        default = np.full(shape, default, stored.as_numpy_dtype)
    return tf.io.FixedLenFeature(shape, stored, default)


def _stored(dtype: tf.DType) -> tf.DType | None:
    """The one of the three types of a tf.Example that holds values of this one."""
    if dtype == tf.string:
        return tf.string
    if dtype.is_integer or dtype.is_bool:
        return tf.int64
    return tf.float32 if dtype.is_floating else None


def _as_trained(value: Any, spec: Any) -> Any:
    return value if value.dtype == spec.dtype else tf.cast(value, spec.dtype)
