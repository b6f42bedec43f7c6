"""What a client gives and gets: arrays, tables and rows, in the form that a signature takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from estimand.core.errors import InputError
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.composites import fed_arrays, joined_values
from estimand.export.loaded.example_features import feature_text
from estimand.export.loaded.reading import describe_signature
from estimand.export.loaded.rows import example_of_row, inputs_of_rows, refuse_misspelt
from estimand.serving.protos.composite_names import part_names


@dataclass(frozen=True)
class SignatureAddress:
    """A model, and which version and signature of it."""

    model: str
    version: int | None = None
    label: str | None = None
    signature: str | None = None

    def __post_init__(self) -> None:
        if not self.model or not isinstance(self.model, str):
            raise InputError(f"model={self.model!r}: give the name of a model.")
        if self.version is not None and self.label is not None:
            raise InputError(
                f"version={self.version} and label={self.label!r} both choose a version of "
                f"{self.model!r}. Give one of them."
            )


@dataclass(frozen=True)
class RemoteSignature:
    """One way to call a served model: what it takes, and what it answers."""

    name: str
    method: str
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]

    @classmethod
    def of(cls, name: str, definition: Any) -> RemoteSignature:
        described = describe_signature(definition)
        return cls(
            name,
            described["method"],
            {key: TensorInfo.of(key, info) for key, info in described["inputs"].items()},
            {key: TensorInfo.of(key, info) for key, info in described["outputs"].items()},
        )

    @property
    def takes_examples(self) -> bool:
        """Whether its input may be serialized tf.Examples: one string for each row."""
        only = next(iter(self.inputs.values())) if len(self.inputs) == 1 else None
        return only is not None and only.dtype == "string" and len(only.shape or (None,)) == 1

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs.values())) or "nothing"
        outputs = ", ".join(map(str, self.outputs.values())) or "nothing"
        return f"signature {self.name!r} takes {inputs} and answers {outputs}"


@dataclass(frozen=True)
class VersionStatus:
    """The state of one version: START, LOADING, AVAILABLE, UNLOADING or END."""

    version: int
    state: str
    error_code: str = "OK"
    error: str = ""

    def __str__(self) -> str:
        return f"version {self.version}: {self.state}" + (f" ({self.error})" if self.error else "")


@dataclass(frozen=True)
class VersionInfo:
    """What a server told of a version."""

    signatures: dict[str, RemoteSignature]
    features: dict[str, Any] = field(default_factory=dict)  # of tf.Examples, where it knows

    def choose(self, model: str, name: str | None) -> RemoteSignature:
        wanted = name or "serving_default"
        if wanted in self.signatures:
            return self.signatures[wanted]
        raise InputError(
            f"Model {model!r} has no signature {wanted!r}. It has: "
            f"{', '.join(map(repr, sorted(self.signatures))) or 'none'}."
        )


def is_frame(value: Any) -> bool:
    """A DataFrame of pandas, without importing it."""
    return hasattr(value, "columns") and hasattr(value, "to_dict") and hasattr(value, "index")


# ------------------------------------------------------------------ predict


def to_inputs(signature: RemoteSignature, given: Any, known: VersionInfo) -> dict[str, np.ndarray]:
    """Arrays by name, of the types that the signature takes.

    `given` is a dict of arrays, a DataFrame, a list of rows (dicts), or, where the signature has
    one input, the array itself.
    """
    if is_frame(given):
        values = _of_frame(signature, given, known)
    elif _is_rows(given):
        values = _of_rows(signature, list(given), known)
    elif isinstance(given, Mapping):
        if given.keys() != signature.inputs.keys():
            raise wrong_names(signature, sorted(map(str, given)), strict=True)
        values = dict(given)
    elif len(signature.inputs) == 1:
        values = {next(iter(signature.inputs)): given}
    else:
        raise InputError(
            f"A {type(given).__name__} was given, but the model has {len(signature.inputs)} "
            f"inputs: give a dict of arrays by name. The {signature}."
        )
    return {
        part: array
        for name, info in signature.inputs.items()
        for part, array in zip(_parts(info), _arrays(info, values[name]), strict=True)
    }


def wrong_names(signature: RemoteSignature, given: Sequence[str], strict: bool) -> InputError:
    missing = sorted(signature.inputs.keys() - set(given))
    unknown = sorted(set(given) - signature.inputs.keys()) if strict else []
    parts = [f"lacks {missing}"] * bool(missing) + [f"has unknown {unknown}"] * bool(unknown)
    return InputError(f"What was given, {list(given)}, {' and '.join(parts)}. The {signature}.")


def _is_rows(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)


def _of_frame(signature: RemoteSignature, frame: Any, known: VersionInfo) -> dict[str, Any]:
    names = [str(name) for name in frame.columns]
    if signature.inputs.keys() <= set(names):
        return {name: _column(frame[name]) for name in signature.inputs}
    rows = [
        {str(name): None if _is_missing(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    return _of_rows(signature, rows, known, names)


def _column(series: Any) -> Any:
    values = series.to_numpy()
    if values.dtype == object and len(values) and isinstance(values[0], list | np.ndarray):
        return np.stack([np.asarray(cell) for cell in values])
    return values


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _of_rows(
    signature: RemoteSignature, rows: list[Any], known: VersionInfo, names: list[str] | None = None
) -> dict[str, Any]:
    names = list(map(str, rows[0])) if names is None else names
    if not signature.inputs.keys() <= set(names):
        if not signature.takes_examples:
            raise wrong_names(signature, names, strict=False)
        if known.features and not set(names) & set(known.features):
            raise InputError(
                f"What was given, {names}, has none of the features of this model's tf.Examples: "
                f"{', '.join(feature_text(*feature) for feature in known.features.items())}. The "
                f"{signature}."
            )
        rows = [_plain_row(row) for row in rows]
    return inputs_of_rows(signature, rows, known.features)


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(name): value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in row.items()
    }


def _arrays(info: TensorInfo, value: Any) -> list[np.ndarray]:
    # One number a row, where the model takes a matrix with one column.
    column = info.kind is None and info.shape is not None and info.shape[1:] == (1,)
    if column and _is_vector(value):
        value = np.asarray(value, object if info.dtype == "string" else None).reshape(-1, 1)
    return fed_arrays(info, value)


def _is_vector(value: Any) -> bool:
    try:
        return np.ndim(value) == 1
    except ValueError:  # rows of different lengths
        return False


def _parts(info: TensorInfo) -> tuple[str, ...]:
    """The names under which its arrays are sent."""
    return part_names(info.name, info.kind, len(info.tensors))


def names_of_outputs(signature: RemoteSignature, wanted: Sequence[str] | None) -> list[str] | None:
    """What to ask the server for, to get these outputs."""
    if wanted is None:
        return None
    known = signature.outputs
    return [part for name in wanted for part in (_parts(known[name]) if name in known else (name,))]


def types_of_outputs(signature: RemoteSignature) -> dict[str, str]:
    """By the names under which arrays come; what is not a value of a tensor is an index."""
    return {
        part: info.dtype if part.endswith("/values") or info.kind is None else "int64"
        for info in signature.outputs.values()
        for part in _parts(info)
    }


def joined_outputs(signature: RemoteSignature, arrays: dict[str, Any]) -> dict[str, Any]:
    """The answer, with sparse and ragged outputs put together again."""
    for name, info in signature.outputs.items():
        parts = _parts(info)
        if info.kind and all(part in arrays for part in parts):
            (arrays[name],) = joined_values([info], [arrays.pop(part) for part in parts])
    return arrays


def to_frame(outputs: Mapping[str, np.ndarray], frame: Any) -> Any:
    """The outputs as columns beside the rows of a DataFrame: lists where a row has several."""
    columns = {}
    for name, array in outputs.items():
        if array.shape[:1] != (len(frame),):
            raise InputError(
                f"The output {name!r} has shape {list(array.shape)} for {len(frame)} rows, and "
                "makes no column. Give a dict of arrays instead of a DataFrame."
            )
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        columns[name] = _texts(array)
    return type(frame)(columns, index=frame.index)


def _texts(array: np.ndarray) -> Any:
    """A list for each row that has several values; bytes as text, where they are text."""
    if array.dtype != object:
        return array if array.ndim == 1 else list(array)
    try:
        return np.vectorize(bytes.decode, otypes=[object])(array).tolist()
    except UnicodeDecodeError:
        return array.tolist()


# ------------------------------------------------------------------ classify and regress


def to_examples(given: Any, features: Mapping[str, Any]) -> list[Any]:
    """tf.train.Examples, from rows (dicts), a DataFrame, serialized or finished Examples."""
    from tensorflow.core.example import example_pb2

    if is_frame(given):
        given = [
            {str(k): None if _is_missing(v) else v for k, v in row.items()}
            for row in given.to_dict("records")
        ]
    if isinstance(given, Mapping | bytes) or not isinstance(given, Sequence):
        raise InputError(
            f"Give a list of examples, each a dict of features, or a DataFrame; was given a "
            f"{type(given).__name__}."
        )
    refuse_misspelt(
        [_plain_row(example) for example in given if isinstance(example, Mapping)], features
    )
    examples = []
    for number, example in enumerate(given):
        if isinstance(example, Mapping):
            example = example_of_row(_plain_row(example), features, number)
        if isinstance(example, bytes):
            example = example_pb2.Example.FromString(example)
        if type(example).__name__ != "Example":
            raise InputError(
                f"Example {number} is a {type(example).__name__}; give a dict of features, a "
                "tf.train.Example, or one serialized to bytes."
            )
        examples.append(example)
    return examples
