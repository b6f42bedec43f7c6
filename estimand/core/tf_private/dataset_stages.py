"""The stages that a Dataset is made of, and how each was set up.

A Dataset knows all of this, but has no public way to be asked; `raw_ops.DatasetToGraph` would tell,
and copy the data as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# How fast, not what: these change no element and no order.
_OF_NO_EFFECT = re.compile(
    r"_num_parallel_(calls|reads)(_t)?|_deterministic|_use_.*|_force_synchronous|_name|_filename"
    r"|_preserve_cardinality|_buffer_output_elements|_prefetch_input_elements|_self_.*|_rerandomize"
)
_SEEDS = ("_seed", "_seed2")
_MOST_IN_SETTING = 8


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline.

    `kind` is as in the name of the method that makes it ("Batch", "Shuffle"), with "Parallel" left
    out; "Variant" is one that cannot be looked into. `settings` are its small numbers by name,
    `data` the tensors it gives, `captured` those that its functions use.
    """

    kind: str
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    data: tuple[tf.Tensor, ...]
    captured: tuple[tf.Tensor, ...]
    graphs: tuple[tf.Graph, ...]
    dataset: tf.data.Dataset
    inputs: tuple[tf.data.Dataset, ...]


def stage_of(dataset: tf.data.Dataset) -> Stage:
    """The last stage of a pipeline; its `inputs` end in the stages before."""
    found = {k: v for k, v in vars(dataset).items() if not _OF_NO_EFFECT.fullmatch(k)}
    seeds = tuple(int(found.pop(n)) for n in _SEEDS if _is_number(found.get(n)))
    settings = {k: _setting(v) for k, v in sorted(found.items())}
    functions = [f.function for f in dataset._functions()]
    inputs = list(dataset._inputs())
    files = found.get("_filenames")  # which some readers keep to themselves
    if isinstance(files, tf.data.Dataset) and not inputs:
        inputs = [files]
    return Stage(
        kind=_kind(dataset),
        settings={k: v for k, v in settings.items() if v is not None},
        seeds=seeds,
        data=tuple(t for t in found.get("_tensors", ()) if _is_value(t)),
        captured=tuple(t for f in functions for t in f.captured_inputs if _is_value(t)),
        graphs=tuple(f.graph for f in functions),
        dataset=dataset,
        inputs=tuple(inputs),
    )


def _kind(dataset: tf.data.Dataset) -> str:
    name = re.sub(r"(Dataset)?(V\d)?$", "", type(dataset).__name__.lstrip("_"))
    return name.removeprefix("Parallel")


def _is_value(thing: Any) -> bool:
    """Whether this is an eager tensor whose contents can be read."""
    return (
        tf.is_tensor(thing)
        and hasattr(thing, "numpy")
        and thing.dtype not in (tf.resource, tf.variant)
    )


def _is_number(thing: Any) -> bool:
    return _is_value(thing) and thing.dtype.is_integer and thing.shape.rank == 0


def _setting(value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return value
    if not _is_value(value) or value.dtype == tf.string:
        return None
    return value.numpy().tolist() if value.shape.num_elements() <= _MOST_IN_SETTING else None
