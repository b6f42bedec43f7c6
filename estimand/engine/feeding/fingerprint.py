"""By what an input is recognized: whether a saved position in it still means anything.

Four things are told apart, since each asks for another place to go on from: the data, the files'
sizes, the arrangement of the data (order, batches, repetitions), and the seeds of its shuffling.
What functions of `map` do with an element is left out: it changes no position.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.tf_private import Stage, stage_of
from estimand.inputs.order import ROWS_OF_BATCH

# Stages that give their input's elements one by one, as they are or changed.
_TRANSPARENT = {"Prefetch", "Options", "Model", "Restructured", "AssertCardinality", "Map", "Cache"}
_WITHOUT_MEANING = {"Prefetch", "Options", "Model", "Restructured", "AssertCardinality"}
_BATCHING = {"Batch": "_batch_size", "PaddedBatch": "_batch_size", "Rebatch": "_batch_sizes",
             "MapAndBatch": "_batch_size_t", "DenseToSparseBatch": "_batch_size"}  # fmt: skip
_MAKES_DATASETS = {"FlatMap", "Interleave", "GroupByWindow"}
_SMALL = 64  # bytes: seeds, counters and the like, which are no data
_WHOLE = 2**26  # bytes of one tensor that are looked at; of a larger one, pieces
_PIECES = 64
_MOST_FILES = 1000


@dataclass(frozen=True)
class Batches:
    """How many rows a number of batches are.

    `epoch` is the number of rows after which batches begin anew, so that the last one may be
    smaller; `share` is how many processes take batches in turn.
    """

    rows: int
    epoch: int | None = None
    drop_remainder: bool = False
    share: int = 1

    @property
    def _in_epoch(self) -> int | None:
        if self.epoch is None:
            return None
        whole, rest = divmod(self.epoch, self.rows)
        return whole + (rest > 0 and not self.drop_remainder)

    def rows_of(self, batches: int) -> int:
        """Rows that lie before the end of the first so many batches."""
        batches *= self.share
        if not self._in_epoch or self.epoch is None:
            return batches * self.rows
        epochs, rest = divmod(batches, self._in_epoch)
        return epochs * self.epoch + rest * self.rows

    def within(self, rows: int) -> int:
        """Whole batches that the first so many rows make."""
        if not self._in_epoch or self.epoch is None:
            return rows // self.rows // self.share
        epochs, rest = divmod(rows, self.epoch)
        return (epochs * self._in_epoch + rest // self.rows) // self.share


@dataclass(frozen=True)
class Fingerprint:
    """What a checkpoint notes of the input that its position is in."""

    data: str
    files: str
    arrangement: str
    structure: str
    seeds: str
    batch_rows: int | None
    # False where a part of the pipeline cannot be looked into.
    seen: bool

    @classmethod
    def of(cls, dataset: tf.data.Dataset) -> Fingerprint:
        stages = list(_stages(dataset))
        contents = [_contents(t) for stage in stages for t in _data_of(stage)]
        if not any(contents):
            contents = [_Contents(json.dumps(s.settings)) for s in stages if not s.inputs]
        meaningful = [s for s in stages if s.kind not in _WITHOUT_MEANING]
        batches = batches_of(dataset)
        return cls(
            data=_digest(c.names for c in contents if c),
            files=_digest(c.sizes for c in contents if c),
            arrangement=_digest(_arrangement(s) for s in meaningful),
            structure=_structure(dataset.element_spec),
            seeds=_digest(str(s.seeds) for s in meaningful if s.seeds),
            batch_rows=None if batches is None else batches.rows,
            seen=all(s.kind != "Variant" for s in stages),
        )

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def differs_in(self, saved: Mapping[str, Any]) -> set[str]:
        """Which of our entries a saved fingerprint has another value for."""
        return {k for k, v in self.as_json().items() if saved.get(k, v) != v}


def batches_of(dataset: tf.data.Dataset) -> Batches | None:
    """How many rows are in the batches of a pipeline; None where that cannot be told."""
    share = 1
    fixed = _fixed_rows(dataset.element_spec)
    while True:
        stage = stage_of(dataset)
        if (told := stage.settings.get(ROWS_OF_BATCH)) is not None:
            return Batches(told, share=share)
        size = stage.settings.get(_BATCHING.get(stage.kind, ""))
        if size is not None:
            break
        if stage.kind == "Shard":
            share *= int(stage.settings.get("_num_shards", 1))
        elif stage.kind not in {*_TRANSPARENT, "Repeat", "Shuffle"}:
            return None if fixed is None else Batches(fixed, share=share)
        dataset = stage.inputs[0]
    if isinstance(size, list):  # of a rebatch
        if len(set(size)) != 1:
            return None
        size = size[0]
    rows = int(stage.inputs[0].cardinality())
    drops = [v for k, v in stage.settings.items() if k.startswith("_drop_remainder")]
    known = rows > 0 and stage.kind != "Rebatch"  # whose input comes in batches of its own
    return Batches(int(size), rows if known else None, any(drops), share)


def _fixed_rows(spec: Any) -> int | None:
    """The first dimension that all parts of an element share."""
    leaves = tf.nest.flatten(spec)
    if not leaves or not all(isinstance(s, tf.TensorSpec) and s.shape.rank for s in leaves):
        return None
    sizes = {tf.compat.dimension_value(s.shape[0]) for s in leaves}
    return sizes.pop() if len(sizes) == 1 else None


def _stages(dataset: tf.data.Dataset) -> Iterator[Stage]:
    stage = stage_of(dataset)
    yield stage
    for before in stage.inputs:
        yield from _stages(before)


def _arrangement(stage: Stage) -> str:
    parts = [stage.kind, json.dumps(stage.settings, sort_keys=True)]
    if stage.kind in _MAKES_DATASETS:
        # The stages inside of a function are ops of its graph.
        for graph in stage.graphs:
            parts += [op.type for op in graph.get_operations() if "Dataset" in op.type]
    return " ".join(parts)


def _structure(spec: Any) -> str:
    """Names, types and shapes, without the number of rows."""

    def of_row(leaf: Any) -> str:
        shape: Any = getattr(leaf, "shape", None)
        rest = shape if shape is None or shape.rank is None else shape.as_list()[1:]
        return f"{type(leaf).__name__} {getattr(leaf, 'dtype', None)} {rest}"

    return _digest([str(tf.nest.map_structure(of_row, spec))])


@dataclass(frozen=True)
class _Contents:
    names: str
    sizes: str = ""


def _data_of(stage: Stage) -> Iterator[tf.Tensor]:
    for tensor in stage.data:
        if stage.kind == "TensorSlice" or _bytes(tensor) > _SMALL:
            yield tensor
    for tensor in stage.captured:
        if _bytes(tensor) > _SMALL:
            yield tensor


def _bytes(tensor: tf.Tensor) -> int:
    count = int(tensor.shape.num_elements())
    if tensor.dtype == tf.string:
        # A single text may be a file that is written to, with a new name every time.
        return 0 if count == 1 else _SMALL + 1
    return count * tensor.dtype.size


def _contents(tensor: tf.Tensor) -> _Contents:
    what = f"{tensor.dtype.name} {tensor.shape}"
    if tensor.dtype == tf.string:
        return _texts(tensor, what)
    # Without a copy, where NumPy knows the type by itself: bfloat16 and smaller ones it does not.
    added = np.dtype(tensor.dtype.as_numpy_dtype).isbuiltin == 2
    values = np.asarray(tensor.numpy() if added else memoryview(tensor))
    flat = values.reshape(-1).view(np.uint8)
    if flat.size > _WHOLE:
        step, piece = flat.size // _PIECES, _WHOLE // _PIECES
        flat = np.concatenate([flat[i * step :][:piece] for i in range(_PIECES)])
    return _Contents(f"{what} {_digest([flat.tobytes()])}")


def _texts(tensor: tf.Tensor, what: str) -> _Contents:
    """Texts, which may be the names of files: those may lie elsewhere, and grow."""
    first = tf.reshape(tensor, [-1])[:_MOST_FILES].numpy().tolist()
    if first and all(os.path.isfile(name) for name in first[:3]):
        names = [os.path.basename(name) for name in first]
        sizes = [os.path.getsize(n) if os.path.isfile(n) else -1 for n in first]
        return _Contents(f"{what} {names}", str(sizes))
    hashes = tf.strings.to_hash_bucket_fast(tensor, 2**62).numpy()
    return _Contents(f"{what} {_digest([hashes.tobytes()])}")


def _digest(parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()
