"""What a signature's input accepts, and turning what is given into that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from estimand.core.errors import InputError


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a signature; a sparse or ragged one consists of several tensors."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    tensor: str
    kind: str | None = None
    parts: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of all tensors it consists of."""
        return self.parts or (self.tensor,)

    @classmethod
    def of(cls, name: str, described: Mapping[str, Any]) -> TensorInfo:
        shape = described["shape"]
        return cls(
            name,
            described["dtype"],
            None if shape is None else tuple(shape),
            described["tensor"],
            described.get("kind"),
            tuple(described.get("parts", ())),
        )

    def __str__(self) -> str:
        kind = f"{self.kind} " if self.kind else ""
        return f"{self.name} ({kind}{self.dtype}, {shape_text(self.shape)})"


def feature_rows(features: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, type and shape of what tf.Examples hold, for a table.

    >>> feature_rows({"age": {"dtype": "float32", "shape": [None], "default": 0.0}})
    [('age', 'float32 (0.0 if missing)', '[?]')]
    """
    return [
        (name, f"{feature['dtype']}{_if_missing(feature)}", shape_text(feature.get("shape")))
        for name, feature in features.items()
    ]


def _if_missing(feature: Mapping[str, Any]) -> str:
    return f" ({feature['default']!r} if missing)" if "default" in feature else ""


def shape_text(shape: Any) -> str:
    """A shape as people write it; `?` where any size will do.

    >>> shape_text((None, 3)), shape_text(None)
    ('[?, 3]', 'any shape')
    """
    if shape is None:
        return "any shape"
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def checked_array(info: TensorInfo, value: Any) -> np.ndarray:
    """`value` as an array that the input takes, if nothing is lost by that."""
    array = _array(info, value)
    _check_shape(info, array)
    if info.dtype == "string":
        return _strings(info, array)
    wanted = _numpy_type(info.dtype)
    if array.dtype == wanted:
        return array
    if array.dtype.kind in "OSU" or not _convertible(array, wanted):
        raise InputError(
            f"Input {info.name!r} takes {info.dtype}, but was given {_kind(array)}: "
            f"{_excerpt(array)}. Convert it: np.asarray(..., dtype={wanted.name!r})."
        )
    return array.astype(wanted)


def _numpy_type(name: str) -> np.dtype:
    """Of what TensorFlow calls so. Only its own kinds need TensorFlow, which takes seconds to
    import: `estimand show` and the client do without."""
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        import tensorflow as tf

        return np.dtype(tf.as_dtype(name).as_numpy_dtype)


def _array(info: TensorInfo, value: Any) -> np.ndarray:
    if hasattr(value, "numpy"):
        value = value.numpy()
    try:
        if info.dtype == "string" and not isinstance(value, np.ndarray):
            return np.array(value, object)  # arrays of bytes would lose zeros at the end
        return np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"Input {info.name!r} takes {info.dtype} of shape {shape_text(info.shape)}; what was "
            f"given is no rectangular array: {error}"
        ) from error


def _check_shape(info: TensorInfo, array: np.ndarray) -> None:
    if info.shape is None:
        return
    if len(info.shape) == array.ndim and _fits(info.shape, array.shape):
        return
    hint = ""
    if array.ndim == len(info.shape) - 1 and _fits(info.shape[1:], array.shape):
        hint = " For one row, give a batch of one: value[np.newaxis]."
    elif array.ndim == len(info.shape) - 1 and info.shape[-1] == 1:
        hint = " Give each row an array of one number: value.reshape(-1, 1)."
    raise InputError(
        f"Input {info.name!r} takes arrays of shape {shape_text(info.shape)}, but was given "
        f"{shape_text(array.shape)}.{hint}"
    )


def _fits(pattern: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return all(wanted in (None, size) for wanted, size in zip(pattern, shape, strict=True))


def _strings(info: TensorInfo, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "S":
        return array.astype(object)
    if array.dtype.kind == "U":
        return np.array([s.encode() for s in array.ravel()], object).reshape(array.shape)
    flat = list(array.ravel())
    if array.dtype.kind != "O" or not all(isinstance(s, str | bytes) for s in flat):
        raise InputError(
            f"Input {info.name!r} takes strings, but was given {_kind(array)}: {_excerpt(array)}."
        )
    encoded = [s.encode() if isinstance(s, str) else s for s in flat]
    return np.array(encoded, object).reshape(array.shape)


def _convertible(array: np.ndarray, wanted: np.dtype) -> bool:
    """Whether the numbers survive; a double may lose digits, as everywhere in TensorFlow."""
    kind = array.dtype.kind
    if wanted.kind == "b":
        return kind == "b"
    if "float" in wanted.name:
        return kind in "iufb" or array.dtype.name == "bfloat16"
    if wanted.kind == "c":
        return kind in "iufc"
    if "int" in wanted.name and kind in "iuf":
        if not array.size:
            return True
        whole = kind != "f" or bool(np.all(array == np.floor(array)))
        limits = ml_dtypes.iinfo(wanted)
        return whole and limits.min <= array.min() and array.max() <= limits.max
    return False


def _kind(array: np.ndarray) -> str:
    return "strings or objects" if array.dtype.kind in "OSU" else array.dtype.name


def _excerpt(array: np.ndarray) -> str:
    shown = ", ".join(repr(v) for v in array.ravel()[:3].tolist())
    return f"[{shown}, ...]" if array.size > 3 else f"[{shown}]"
