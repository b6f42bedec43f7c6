"""Whatever an input function returns, as one checked Dataset of batches."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.core.names import missing_key
from estimand.inputs.call import bind_input_fn, name_of
from estimand.inputs.legacy.fed_placeholders import FedByHooks
from estimand.inputs.legacy.graph_inputs import GraphInput, call_eagerly, dataset_from_graph
from estimand.inputs.memory.iterables import dataset_from_batches, is_batches
from estimand.inputs.sources import Source, noting_sources
from estimand.inputs.structure import clean_parts, describe, split_pair
from estimand.inputs.tfrecord import slow_parsing

_log = logging.getLogger("tensorflow")


@dataclasses.dataclass(frozen=True)
class ModelInput:
    """Batches for a model function, whatever form the user's input function gave them.

    Attributes:
      dataset: its elements are batches; `unpack` splits one into features and labels.
      has_labels: False when the input function gives features only.
      resumable: False where it is known that the Dataset cannot save its position. Where it is
        True a save may still fail, e.g. for a user's Dataset with a `py_function` inside.
      endless_constant: the input function returned tensors or arrays without any Dataset:
        the same computation is repeated for ever.
      keep_alive: must live as long as the Dataset does.
      sources: the ready-made input functions among what it reads from.
      fed: where hooks feed its placeholders at every step; the elements are then numbers.

    Args:
      structure: what an element of the Dataset is made of.

    >>> given = call_input_fn(
    ...     lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [2])),
    ...     mode="train", params=None, config=None)
    >>> features, labels = given.unpack(next(iter(given.dataset)))
    >>> labels.numpy().tolist()
    [2]
    """

    dataset: tf.data.Dataset
    has_labels: bool
    resumable: bool
    endless_constant: bool
    keep_alive: tuple[Any, ...] = ()
    # Set where elements are flat tuples: (features,) or (features, labels) to pack them into.
    structure: tuple[Any, ...] | None = None
    sources: tuple[Source, ...] = ()
    fed: FedByHooks | None = None

    @property
    def element_spec(self) -> tuple[Any, Any]:
        """The types of (features, labels); labels None when there are none."""
        features, labels = self.unpack(self.dataset.element_spec)
        return self.fed or features, labels

    def unpack(self, element: Any) -> tuple[Any, Any]:
        """(features, labels) of one element, or of anything of an element's structure."""
        if self.structure is not None:
            parts = tf.nest.pack_sequence_as(self.structure, tf.nest.flatten(element))
            return parts if self.has_labels else (parts[0], None)
        return tuple(element) if self.has_labels else (element, None)


def call_input_fn(
    input_fn: Callable[..., Any],
    *,
    mode: str | None,
    params: Any,
    config: Any,
    input_context: tf.distribute.InputContext | None = None,
) -> ModelInput:
    """Call `input_fn` with the arguments it declares and make a Dataset of what it returns.

    A function that returns a Dataset, an iterable, or values that cannot change is called once,
    eagerly. One that returns tensors of random or otherwise stateful operations, or uses v1
    iterators or placeholders, is called again in graph-building mode.

    Args:
      input_fn: the function to call.
      mode: of the call: train, eval or infer.
      params: handed to it, if it asks.
      config: handed to it, if it asks.
      input_context: which part of several this process reads.

    >>> call_input_fn(lambda params: ({"x": params}, [1]),
    ...               mode="train", params=[2.0], config=None).endless_constant
    True
    """
    # What is ready-made gives tensors to other input functions of old programs.
    call = bind_input_fn(
        getattr(input_fn, "as_dataset", input_fn),
        mode=mode,
        params=params,
        config=config,
        input_context=input_context,
    )
    with tf.device("/cpu:0"), noting_sources() as sources:
        given = _call(_telling_missing_params(call, params), f"input_fn {name_of(input_fn)}")
    if slow_parsing.parses_one_by_one(given.dataset):
        _log.warning(slow_parsing.ADVICE, f"input_fn {name_of(input_fn)}")
    return dataclasses.replace(given, sources=tuple(sources))


def _telling_missing_params(call: Callable[[], Any], params: Any) -> Callable[[], Any]:
    """`call`, whose KeyErrors say which params there are."""

    def telling() -> Any:
        try:
            return call()
        except KeyError as error:
            told = missing_key(error, {"param": params})
            if told is None:
                raise
            raise told.with_traceback(error.__traceback__) from None

    return telling


def _call(call: Callable[[], Any], where: str) -> ModelInput:
    with tf_private.noting_stateful_operations() as stateful:
        result, needs_graph = call_eagerly(call)
    if needs_graph:
        return _from_graph(dataset_from_graph(call, where), where)
    if isinstance(result, tf.data.Dataset):
        return _from_dataset(result, where)
    if is_batches(result, where):
        dataset, structure = dataset_from_batches(result, where)
        return ModelInput(dataset, len(structure) == 2, False, False, (result,), structure)
    return _from_values(call, result, where, changing=bool(stateful))


def _from_dataset(dataset: tf.data.Dataset, where: str, **facts: Any) -> ModelInput:
    features, labels = split_pair(dataset.element_spec, where, verb="gives elements that are")
    for leaf in tf.nest.flatten((features, labels)):
        if isinstance(leaf, tf.data.DatasetSpec):
            raise InputError(
                f"{where} returned a Dataset whose elements contain Datasets ({leaf}), as "
                "window() makes them. Turn each into tensors: "
                "`dataset.flat_map(lambda window: window.batch(size))`."
            )
    if not tf.nest.flatten(features) and (labels is None or features != {}):
        raise InputError(
            f"{where} returned a Dataset whose features are empty: "
            f"{describe(dataset.element_spec)}. Features need at least one tensor."
        )
    facts = {"resumable": True, "endless_constant": False, **facts}
    if tf_private.is_spec_of_none(labels):
        alone = dataset.map(tf.autograph.experimental.do_not_convert(lambda features, _: features))
        return ModelInput(alone, has_labels=False, **facts)
    return ModelInput(dataset, has_labels=labels is not None, **facts)


def _from_graph(given: GraphInput, where: str) -> ModelInput:
    if given.structure is None:
        return _from_dataset(
            given.dataset, where, resumable=given.resumable, keep_alive=given.keep_alive
        )
    return ModelInput(
        given.dataset,
        has_labels=len(given.structure) == 2,
        resumable=given.resumable,
        endless_constant=given.endless,
        keep_alive=given.keep_alive,
        structure=given.structure,
        fed=given.fed,
    )


def _from_values(call: Callable[[], Any], result: Any, where: str, *, changing: bool) -> ModelInput:
    """Plain tensors or arrays: one batch, computed afresh at every step if it may change."""
    parts = clean_parts(result, where)
    # Arrays cannot change from step to step; tensors may come from random operations.
    if changing and any(tf.is_tensor(leaf) for leaf in tf.nest.flatten(parts)):
        try:
            return _from_graph(dataset_from_graph(call, where), where)
        except InputError:
            raise
        except Exception as error:
            _log.warning(
                "%s returns tensors and works in eager mode only (in graph mode: %s). The batch it "
                "returned is given at every step; if batches should follow one another, return "
                "a tf.data.Dataset.",
                where,
                str(error).partition("\n")[0] or type(error).__name__,
            )
    structure = tf.nest.map_structure(lambda leaf: None, parts)
    dataset = tf.data.Dataset.from_tensors(tuple(tf.nest.flatten(parts))).repeat()
    return ModelInput(dataset, len(parts) == 2, True, True, (), structure)
