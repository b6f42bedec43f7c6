"""Input functions over data in memory: NumPy arrays and pandas frames."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.legacy.v1_iterators import in_input_fn_of_old_code
from estimand.inputs.memory.rows import RowsInMemory, note_rows
from estimand.inputs.order import batches_of_rows
from estimand.inputs.permutation import draw_seed, rows_in_order
from estimand.inputs.structure import clean

# Batches are gathered several at a time and then handed out one by one, which costs a third of
# gathering each. A saved position contains the block being handed out, hence the limit.
_BLOCK_BYTES = 2**20
_BLOCK_ROWS = 4096


# Whether an estimator calls the function itself, and not another input function that it was given.
_asked_itself: ContextVar[bool] = ContextVar("estimand_asked_itself", default=False)


class InputTypeError(InputError, TypeError):
    """Data of a type that an in-memory input function cannot read."""


def numpy_input_fn(
    x: np.ndarray | Mapping[str, np.ndarray],
    y: np.ndarray | Mapping[str, np.ndarray] | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], tf.data.Dataset]:
    """An input function that reads arrays in batches.

    Epochs follow one another without a gap, so a batch may hold the end of one epoch and the
    beginning of the next; only the very last batch can be smaller.

    Args:
      x: features, a dict of arrays or one array (then features are a bare tensor).
      y: labels, likewise, or None.
      batch_size: rows per batch.
      num_epochs: how often to read all rows; None reads them for ever.
      shuffle: True draws a new order of all rows for every epoch. Must be given.
      queue_capacity: accepted for the sake of old code; there is no queue.
      num_threads: likewise. Rows are read once per epoch whatever it says.

    >>> read = numpy_input_fn(np.arange(5), batch_size=2, num_epochs=2, shuffle=False)
    >>> [batch.tolist() for batch in read().as_numpy_iterator()]
    [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]
    """
    del queue_capacity, num_threads
    order = _Order(batch_size, num_epochs, _explicit(shuffle))

    def input_fn() -> tf.data.Dataset:
        features = _features(x)
        labels = _labels(y, features)
        _check_lengths(features, labels)
        return _batches(features, labels, order, "numpy_input_fn")

    return _giving_either(input_fn)


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], tf.data.Dataset]:
    """An input function that reads a pandas DataFrame in batches, as a dict of its columns.

    `y` is a Series (labels are one tensor) or a DataFrame (a dict), with the index of `x`. The
    other arguments are those of `numpy_input_fn`.

    Args:
      x: a DataFrame of features.
      y: a Series or DataFrame of labels; None: there are none.
      batch_size: how many rows a batch has.
      num_epochs: how often to read the data; None: for ever in training.
      shuffle: whether to mix the rows; None: in training.
      queue_capacity: accepted for old code.
      num_threads: accepted for old code.
      target_column: name of the labels, if y is a Series.

    >>> read = pandas_input_fn(frame, frame.pop("age"), shuffle=False)  # doctest: +SKIP
    """
    del queue_capacity, num_threads
    order = _Order(batch_size, num_epochs, _explicit(shuffle))
    if not isinstance(target_column, str):
        raise InputTypeError(f"target_column must be a string type, given: {target_column!r}")
    _check_pandas("x", x)
    labels = None
    if y is not None:
        _check_pandas("y", y)
        if target_column in x:
            raise InputError(
                f"Cannot use name {target_column} for target column: DataFrame already has a "
                f"column with that name: {list(x.columns)}. Pass another target_column."
            )
        if not np.array_equal(x.index, y.index):
            raise InputError(
                f"Index for x and y are mismatched.\nIndex for x: {x.index}\n"
                f"Index for y: {y.index}\nPass `y.reindex(x.index)`, or reset both."
            )
        labels = _columns(y) if hasattr(y, "columns") else y.to_numpy(copy=True)
    features = _columns(x)

    def input_fn() -> tf.data.Dataset:
        return _batches(features, labels, order, "pandas_input_fn")

    return _giving_either(input_fn)


def _giving_either(input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """An input function that an estimator asks for a Dataset, and old input functions for tensors.

    In tf.estimator it gave the tensors of a batch, and programs wrap it in functions of their own
    that change them.
    """

    def as_dataset() -> tf.data.Dataset:
        token = _asked_itself.set(True)
        try:
            return input_fn()
        finally:
            _asked_itself.reset(token)

    input_fn.as_dataset = as_dataset  # type: ignore[attr-defined]
    return input_fn


def _check_pandas(name: str, value: Any) -> None:
    if not hasattr(value, "index") or isinstance(value, (list, tuple, str)):
        what = "DataFrame" if name == "x" else "Series or DataFrame"
        raise InputTypeError(
            f"pandas_input_fn: {name} must be a pandas {what}, given: {type(value).__name__}. For "
            "tables of pyarrow and Polars there is est.inputs.table_input_fn, for arrays "
            "est.inputs.numpy_input_fn."
        )


@dataclasses.dataclass(frozen=True)
class _Order:
    """Which rows, in which order, make up which batch."""

    batch_size: int
    num_epochs: int | None
    shuffle: bool
    seed: int | None = None
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size must be at least 1, given: {self.batch_size}")
        if self.num_epochs is not None and self.num_epochs < 0:
            raise InputError(f"num_epochs must be None or at least 0, given: {self.num_epochs}")


def _explicit(shuffle: Any) -> bool:
    if not isinstance(shuffle, bool):
        raise InputError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )
    return shuffle


def _columns(frame: Any) -> dict[Any, np.ndarray]:
    # A copy: the frame may be changed between now and the calls of the input function.
    return {column: frame[column].to_numpy(copy=True) for column in frame.columns}


def _features(x: Any) -> Any:
    if isinstance(x, Mapping):
        if not x:
            raise InputError("x cannot be an empty dict")
        return {key: np.asarray(value) for key, value in x.items()}
    if not isinstance(x, np.ndarray):
        raise InputTypeError(
            f"x must be a dict or array; got {type(x).__name__}. Convert it: `np.asarray(x)`."
        )
    if x.size == 0:
        raise InputError(f"x cannot be an empty array; its shape is {x.shape}")
    return x


def _labels(y: Any, features: Any) -> Any:
    if y is None or not isinstance(y, Mapping):
        return None if y is None else np.asarray(y)
    if not y:
        raise InputError("y cannot be empty dict, use None instead.")
    both = set(y) & set(features) if isinstance(features, dict) else set()
    if both:
        raise InputError(
            f"{len(both)} duplicate keys are found in both x and y: {both}. Rename those of y."
        )
    return {key: np.asarray(value) for key, value in y.items()}


def _check_lengths(features: Any, labels: Any) -> None:
    arrays = tf.nest.flatten(features) + ([] if labels is None else tf.nest.flatten(labels))
    if len({array.shape[:1] for array in arrays}) == 1 and arrays[0].ndim:
        return

    def shapes(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: value.shape for key, value in part.items()}
        return None if part is None else part.shape

    raise InputError(
        "Length of tensors in x and y is mismatched. All elements in x and y must have the same "
        f"length.\nShapes in x: {shapes(features)}\nShapes in y: {shapes(labels)}\n"
    )


def _batches(features: Any, labels: Any, order: _Order, where: str) -> Any:
    """A Dataset; the tensors of a batch in a graph that the caller's own session is to run."""
    data = clean(features, "x", where)
    if labels is not None:
        data = (data, clean(labels, "y", where))
    graph = tf.compat.v1.get_default_graph()
    for_session = not tf.executing_eagerly() and not graph.building_function
    wants_tensors = for_session or (in_input_fn_of_old_code() and not _asked_itself.get())
    if for_session and order.shuffle and order.seed is None:
        # An iterator that starts by itself cannot contain a random operation.
        order = dataclasses.replace(order, seed=random.Random(graph.seed).randrange(2**31))
    with tf.device("/cpu:0"):
        tensors = tf.nest.map_structure(tf.convert_to_tensor, data)
        rows = _rows(tensors, order)
        dataset = _in_blocks(rows, only_full=order.drop_remainder)
        # TensorFlow would append a prefetch of a size of its own choosing, all of which becomes
        # part of a saved position: more than 100 MB were seen.
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        dataset = batches_of_rows(dataset.with_options(options), order.batch_size)
        if not wants_tensors:
            return note_rows(dataset, rows)
        return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()


def _in_blocks(data: RowsInMemory, *, only_full: bool) -> tf.data.Dataset:
    """Blocks of whole batches gathered at once, then what remains, batch by batch."""
    size, total = data.batch_size, data.total
    block = _batches_per_block(data.tensors, size)

    @tf.autograph.experimental.do_not_convert
    def whole_block(index: tf.Tensor) -> Any:
        positions = tf.range(index * size * block, (index + 1) * size * block)
        return data.take(tf.reshape(positions, [block, size]))

    if total is None:
        return data.numbers().map(whole_block).unbatch()
    blocks = total // (size * block)

    @tf.autograph.experimental.do_not_convert
    def one_batch(index: tf.Tensor) -> Any:
        positions = tf.range(index * size, tf.minimum((index + 1) * size, total))
        return data.take(tf.reshape(positions, [size]) if only_full else positions)

    rest = tf.data.Dataset.range(blocks * block, -(-total // size)).map(one_batch)
    if not blocks:
        return rest
    return tf.data.Dataset.range(blocks).map(whole_block).unbatch().concatenate(rest)


def _batches_per_block(tensors: Any, batch_size: int) -> int:
    leaves = tf.nest.flatten(tensors)
    row_bytes = sum(t.shape[1:].num_elements() * max(t.dtype.size, 1) for t in leaves)
    wanted = min(_BLOCK_ROWS, _BLOCK_BYTES // max(row_bytes, 1))
    return max(1, wanted // batch_size)


def _rows(tensors: Any, order: _Order) -> RowsInMemory:
    rows = int(tf.nest.flatten(tensors)[0].shape[0])
    total = None if order.num_epochs is None else rows * order.num_epochs
    if total is not None and order.drop_remainder:
        total -= total % order.batch_size
    # Drawn once, here: with `tf.random.set_seed` the same program reads in the same order.
    seed = draw_seed(order.seed) if order.shuffle else None
    in_order = seed is None and order.num_epochs == 1
    return RowsInMemory(tensors, rows_in_order(rows, seed), order.batch_size, total, in_order)
