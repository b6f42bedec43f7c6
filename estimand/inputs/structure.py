"""What may stand inside features and labels: checking it, cleaning it, describing it."""

from __future__ import annotations

import collections
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError

_SCALARS = (numbers.Number, str, bytes, np.generic)
_ACCEPTED = (
    "Return a tf.data.Dataset, a pair (features, labels), features alone, or an iterable of such "
    "batches."
)


def describe(value: Any, depth: int = 2) -> str:
    """A value in a few words, for messages.

    >>> describe(({"x": np.zeros((2, 3))}, [1, 2]))
    "({'x': array float64 (2, 3)}, [1, 2])"
    """
    if isinstance(value, tf.TypeSpec):
        return f"{value.dtype.name} {value.shape}" if hasattr(value, "dtype") else str(value)
    if isinstance(value, tf.data.Dataset):
        return f"a Dataset of {describe(value.element_spec)}"
    if tf.is_tensor(value):
        kind = "Tensor" if isinstance(value, tf.Tensor) else type(value).__name__
        return f"{kind} {value.dtype.name} {value.shape}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape}"
    if isinstance(value, (Mapping, list, tuple)) and depth and len(value) <= 12:
        if isinstance(value, Mapping):
            inner = ", ".join(f"{k!r}: {describe(v, depth - 1)}" for k, v in value.items())
            return f"{{{inner}}}"
        inner = ", ".join(describe(v, depth - 1) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}... ({type(value).__name__})"


def split_pair(value: Any, where: str, verb: str = "returned") -> tuple[Any, Any]:
    """(features, labels) of what an input function gave; labels None when there are none.

    >>> split_pair({"x": 1}, "input_fn f")
    ({'x': 1}, None)
    """
    if value is None:
        raise InputError(f"{where} {verb} None. Is a `return` missing? {_ACCEPTED}")
    if not isinstance(value, (tuple, list)) or isinstance(value, tf.compat.v1.SparseTensorValue):
        return value, None
    if len(value) != 2:
        hint = " Put example weights into the features dict." if len(value) == 3 else ""
        raise InputError(
            f"input_fn should return (features, labels) as a len 2 tuple. {where} {verb} a "
            f"{type(value).__name__} of {len(value)}: {describe(value)}. {_ACCEPTED}{hint}"
        )
    features, labels = value
    return features, labels


def clean_parts(value: Any, where: str, verb: str = "returned") -> tuple[Any, ...]:
    """(features,) or (features, labels) of what was given, both cleaned."""
    features, labels = split_pair(value, where, verb)
    # A model of the labels alone needs no features; an empty dict then says that on purpose.
    if labels is None or not isinstance(features, dict) or features:
        features = clean(features, "features", where)
    return (features,) if labels is None else (features, clean(labels, "labels", where))


def clean(value: Any, path: str, where: str) -> Any:
    """The same structure with every leaf a tensor or a NumPy array that TensorFlow can hold."""
    if isinstance(value, _SCALARS) and path == "features":
        raise InputError(f"{where}: features are {describe(value)}, a single value. {_ACCEPTED}")
    if isinstance(value, tf.Variable):
        return tf.convert_to_tensor(value)
    if tf.is_tensor(value):
        return value
    if isinstance(value, tf.compat.v1.SparseTensorValue):
        return tf.SparseTensor(*value)
    value = _unwrap_foreign(value)
    if isinstance(value, Mapping):
        return _clean_mapping(value, path, where)
    if isinstance(value, (list, tuple)) and not _is_literal(value):
        return _clean_sequence(value, path, where)
    if isinstance(value, (list, tuple, *_SCALARS)):
        return _literal_array(value, path, where)
    if hasattr(value, "__array__"):
        return _checked_array(np.asarray(value), path, where)
    raise _not_a_leaf(value, path, where)


def _not_a_leaf(value: Any, path: str, where: str) -> InputError:
    if isinstance(value, tf.data.Dataset):
        return InputError(
            f"{where}: {path} is {describe(value)}. One Dataset must give both: return "
            "`tf.data.Dataset.zip((features_dataset, labels_dataset))`."
        )
    if isinstance(value, tf.Operation):
        return InputError(f"{where}: {path} is an operation ({value.name}), not a tensor.")
    return InputError(
        f"{where}: {path} is {describe(value)}, a {type(value).__name__}. Features and labels are "
        "tensors or arrays, or dicts, tuples and lists of them."
    )


def _unwrap_foreign(value: Any) -> Any:
    """pandas and PyTorch containers as dicts and arrays; known by shape, so neither is needed."""
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return {column: value[column].to_numpy() for column in value.columns}
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        return value.detach().cpu().numpy()
    return value


def _clean_mapping(value: Mapping[Any, Any], path: str, where: str) -> dict[Any, Any]:
    if not value:
        raise InputError(f"{where}: {path} is an empty dict. {_ACCEPTED}")
    kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    return kind((key, clean(item, f"{path}[{key!r}]", where)) for key, item in value.items())


def _clean_sequence(value: list[Any] | tuple[Any, ...], path: str, where: str) -> Any:
    if not value:
        raise InputError(f"{where}: {path} is an empty {type(value).__name__}. {_ACCEPTED}")
    if hasattr(value, "_fields"):
        named = zip(value._fields, value, strict=True)
        return type(value)(*(clean(item, f"{path}.{name}", where) for name, item in named))
    items = [clean(item, f"{path}[{i}]", where) for i, item in enumerate(value)]
    return items if isinstance(value, list) else tuple(items)


def _is_literal(value: Any) -> bool:
    """Numbers and strings only, such as `[[1, 2], [3, 4]]`: one array, not a structure."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return bool(value) and all(_is_literal(item) for item in value)
    return isinstance(value, _SCALARS)


def _literal_array(value: Any, path: str, where: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"{where}: {path} is a list whose rows have different lengths: {describe(value)}. "
            "Pad the rows, or use tf.ragged.constant(...)."
        ) from error
    if isinstance(value, np.generic):
        return _checked_array(array, path, where)
    # Python numbers get the types that tf.constant gives them.
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64 and np.array_equal(array, array.astype(np.int32)):
        array = array.astype(np.int32)
    return _checked_array(array, path, where)


def _checked_array(array: np.ndarray, path: str, where: str) -> np.ndarray:
    if array.dtype == object:
        items: Iterable[Any] = array.flat
        for item in items:
            if not isinstance(item, (str, bytes)):
                raise InputError(
                    f"{where}: {path} is a NumPy array of Python objects (dtype=object, found "
                    f"{item!r} of type {type(item).__name__}); TensorFlow holds numbers, booleans "
                    "and strings. Convert it: `.astype(np.float32)` or `.astype(str)`, after "
                    "filling in missing values."
                )
        return array
    try:
        tf.as_dtype(array.dtype)
    except TypeError as error:
        raise InputError(
            f"{where}: {path} has dtype {array.dtype}, which TensorFlow cannot hold. "
            "Convert it first, e.g. `.astype(np.int64)`."
        ) from error
    return array


def leaf_names(structure: Any, path: str) -> Iterator[str]:
    """Names such as `features['x']`, in the order in which tf.nest flattens the structure.

    >>> list(leaf_names({"b": 1, "a": (2, 3)}, "features"))
    ["features['a'][0]", "features['a'][1]", "features['b']"]
    """
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from leaf_names(structure[key], f"{path}[{key!r}]")
    elif isinstance(structure, (list, tuple)):
        names = getattr(structure, "_fields", None)
        for i, item in enumerate(structure):
            yield from leaf_names(item, f"{path}.{names[i]}" if names else f"{path}[{i}]")
    else:
        yield path
