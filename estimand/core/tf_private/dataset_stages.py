"""The stages that a Dataset is made of, and how each was set up.

A Dataset knows all of this, but has no public way to be asked; `raw_ops.DatasetToGraph` would tell,
and copy the data as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
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
    """One stage of a pipeline: the last of `dataset`. What nobody asks for is not looked up."""

    dataset: Any

    @cached_property
    def kind(self) -> str:
        """As in the name of the method that makes it ("Batch", "Shuffle"), without "Parallel".

        "Variant" is one that cannot be looked into.
        """
        return _kind(self.dataset)

    @cached_property
    def inputs(self) -> tuple[tf.data.Dataset, ...]:
        """The pipelines that end in the stages before."""
        inputs = tuple(self.dataset._inputs())
        files = self._attributes.get("_filenames")  # which some readers keep to themselves
        return (files,) if isinstance(files, tf.data.Dataset) and not inputs else inputs

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Its small numbers by name, without its seeds."""
        settings = {k: _setting(v) for k, v in sorted(self._attributes.items())}
        return {k: v for k, v in settings.items() if v is not None and k not in self._seeds}

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self._seeds.values())

    @property
    def data(self) -> tuple[tf.Tensor, ...]:
        """The tensors that it gives."""
        return tuple(t for t in self._attributes.get("_tensors", ()) if _is_value(t))

    @property
    def captured(self) -> tuple[tf.Tensor, ...]:
        """The tensors that its functions use."""
        return tuple(t for f in self._functions for t in f.captured_inputs if _is_value(t))

    @property
    def graphs(self) -> tuple[tf.Graph, ...]:
        return tuple(f.graph for f in self._functions)

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self.dataset).items() if not _OF_NO_EFFECT.fullmatch(k)}

    @cached_property
    def _seeds(self) -> dict[str, int]:
        attributes = self._attributes
        return {n: int(attributes[n]) for n in _SEEDS if _is_number(attributes.get(n))}

    @cached_property
    def _functions(self) -> list[Any]:
        return [f.function for f in self.dataset._functions()]


def stage_of(dataset: tf.data.Dataset) -> Stage:
    """The last stage of a pipeline."""
    return Stage(dataset)


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


def shuffles_to_keep(dataset: tf.data.Dataset) -> int:
    """How many stages shuffle anew in each epoch, if a saved position might not know how.

    A `shuffle` counts its epochs, and an iterator saves that count as long as it is inside of one.
    Stages between it and `repeat` may have come to the end of an epoch before the next begins: a
    `batch` that gives the rest, or whatever reads ahead. Then nothing of the count is saved.
    """
    shuffles, may_be_lost = 0, False
    stages: list[tuple[tf.data.Dataset, int | None]] = [(dataset, None)]
    while stages:
        current, since_repeat = stages.pop()
        stage = stage_of(current)
        if stage.kind == "Cache":  # what is before it has one epoch
            continue
        if stage.kind == "Shuffle" and stage.settings.get("_reshuffle_each_iteration", True):
            shuffles += 1
            may_be_lost |= bool(since_repeat)
        if stage.kind == "Repeat":
            since_repeat = 0
        elif since_repeat is not None:
            since_repeat += 1
        stages += [(before, since_repeat) for before in stage.inputs]
    return shuffles if may_be_lost else 0


def shuffles_kept(state: tf.Tensor) -> int:
    """Of how many stages the saved state of an iterator knows in which epoch they shuffle."""
    return tf.io.serialize_tensor(state).numpy().count(b"@@epoch_num_random_samples@@")


def sliced_tensors(dataset: tf.data.Dataset) -> tuple[tf.Tensor, ...] | None:
    """The tensors whose rows `from_tensor_slices` gives; None for any other Dataset.

    None also where an element is more than slices: sparse and ragged tensors are packed.
    """
    if type(dataset).__name__ != "_TensorSliceDataset":
        return None
    leaves = tf.nest.flatten(dataset.element_spec)
    tensors = tuple(dataset._tensors)
    dense = len(leaves) == len(tensors) and all(isinstance(s, tf.TensorSpec) for s in leaves)
    return tensors if dense and all(map(_is_value, tensors)) else None


def handed_on(dataset: tf.data.Dataset) -> list[int] | None:
    """Of a `map` that only arranges its element anew: which part of it each result is.

    None for any other stage.
    """
    if type(dataset).__name__ not in ("_MapDataset", "_ParallelMapDataset"):
        return None
    specs = tf.nest.flatten((dataset._inputs()[0].element_spec, dataset.element_spec))
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return None
    [function] = (wrapper.function for wrapper in dataset._functions())
    # What comes after the parts of the element are tensors that the function uses beside it.
    parts = function.inputs[: len(function.inputs) - len(function.captured_inputs)]
    given = {tensor.op.name: i for i, tensor in enumerate(parts)}
    places = []
    for tensor in function.outputs:
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        places.append(given.get(tensor.op.name))
    alone = all(op.type in _OF_ARRANGING for op in function.graph.get_operations())
    return places if alone and None not in places else None  # type: ignore[return-value]


_OF_ARRANGING = ("Placeholder", "Identity", "NoOp")


def same_stage(dataset: tf.data.Dataset, on: tf.data.Dataset) -> tf.data.Dataset | None:
    """The last stage of a pipeline, set up in the same way, on another input.

    None where the stage is not one of those that hand on their input's elements as they are, or
    several of them as one. What a stage draws at random it draws in the same order.
    """
    make = _STAGES.get(type(dataset).__name__)
    return None if make is None else make(dataset, on)


def _shuffled(dataset: Any, on: tf.data.Dataset) -> tf.data.Dataset:
    """Not by `shuffle`, which would draw seeds of its own."""
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=tf.data.experimental.to_variant(on),
        buffer_size=dataset._buffer_size,
        seed=dataset._seed,
        seed2=dataset._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        output_types=[spec.dtype for spec in tf.nest.flatten(on.element_spec)],
        output_shapes=[spec.shape for spec in tf.nest.flatten(on.element_spec)],
        reshuffle_each_iteration=dataset._reshuffle_each_iteration is not False,
    )
    return tf.data.experimental.from_variant(variant, on.element_spec)


def _batched(dataset: Any, on: tf.data.Dataset) -> tf.data.Dataset | None:
    size = size_of_batches_in_order(dataset)
    return None if size is None else on.batch(size, bool(dataset._drop_remainder))


def size_of_batches_in_order(dataset: Any) -> int | None:
    """Of a `batch` that keeps the order of what it is given; None for any other stage."""
    batches = _STAGES.get(type(dataset).__name__) is _batched
    if not batches or getattr(dataset, "_deterministic", None) == "false":
        return None
    return int(dataset._batch_size)


def _cached(dataset: Any, on: tf.data.Dataset) -> tf.data.Dataset | None:
    in_memory = tf.get_static_value(dataset._filename) in (b"", "")
    return on.cache() if in_memory else None


_STAGES: dict[str, Any] = {
    "_ShuffleDataset": _shuffled,
    "_BatchDataset": _batched,
    "BatchDataset": _batched,
    "_ParallelBatchDataset": _batched,
    "CacheDataset": _cached,
    "_CacheDataset": _cached,
    "_RepeatDataset": lambda dataset, on: on.repeat(int(dataset._count)),
    "RepeatDataset": lambda dataset, on: on.repeat(int(dataset._count)),
    "_TakeDataset": lambda dataset, on: on.take(int(dataset._count)),
    "_SkipDataset": lambda dataset, on: on.skip(int(dataset._count)),
    "_ShardDataset": lambda dataset, on: on.shard(int(dataset._num_shards), int(dataset._index)),
    "_PrefetchDataset": lambda dataset, on: on,
    "_OptionsDataset": lambda dataset, on: on,
}
