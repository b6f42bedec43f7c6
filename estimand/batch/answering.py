"""A model that answers chunks of rows; what it cannot answer is told row by row."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from estimand.batch.chunks import Chunk, RowError, by_parts
from estimand.core.errors import InputError
from estimand.core.names import did_you_mean, listed
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.predict_rows import called, choose_signature, columns_of, schema_of
from estimand.export.loaded.rows import examples_input, plain_column, plain_value, refuse_misspelt

if TYPE_CHECKING:
    from estimand.export.loaded.loading import LoadedModel

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Answers:
    """One value per row in each column: what the model answers, and what was kept of the input."""

    count: int
    outputs: Mapping[str, Sequence[Any]]
    kept: Mapping[str, Any]

    def rows(self) -> Iterator[dict[str, Any]]:
        """As plain values that JSON can hold."""
        kept = {name: _plain_list(values) for name, values in self.kept.items()}
        columns = kept | {name: plain_column(values) for name, values in self.outputs.items()}
        for i in range(self.count):
            yield {name: values[i] for name, values in columns.items()}


def _plain_list(values: Any) -> list[Any]:
    listed = values.to_pylist() if hasattr(values, "to_pylist") else values
    return [plain(value) for value in listed]


def plain(value: Any) -> Any:
    """What was given, such that JSON can hold it.

    >>> plain({"day": datetime.date(2026, 11, 17), "text": b"a", "size": float("inf")})
    {'day': '2026-11-17', 'text': 'a', 'size': 'Infinity'}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    plain_one = plain_value(value)
    is_json = plain_one is None or isinstance(plain_one, str | int | float | bool | list | dict)
    return plain_one if is_json else str(plain_one)


class Answering:
    """One signature of a loaded model."""

    def __init__(
        self, model: LoadedModel, signature: str | None = None, keep: Sequence[str] = ()
    ) -> None:
        self._signature = choose_signature(model, signature)
        self._schema = schema_of(model)
        self._examples = examples_input(self._signature)
        self._keep = keep

    @property
    def outputs(self) -> Mapping[str, TensorInfo]:
        return self._signature.outputs

    def check_names(self, chunk: Chunk, where: str) -> None:
        """Complain of names that cannot be right: that is no matter of single rows."""
        given = chunk.named()
        if not given:  # records, which the model parses itself
            return
        takes_examples = self._examples is not None and self._examples not in given[0]
        if chunk.names is not None:
            self._check_columns(chunk.names, takes_examples, where)
        if takes_examples:
            refuse_misspelt(given, self._schema)

    def _check_columns(self, names: Sequence[str], takes_examples: bool, where: str) -> None:
        infos = self._signature.inputs.items()
        needed = {name: str(info) for name, info in infos if not info.kind}
        if takes_examples:
            schema = self._schema.items()
            needed = {name: info["dtype"] for name, info in schema if info.get("required")}
        needed |= {name: "a column to keep" for name in self._keep}
        for name, what in needed.items():
            if name not in names:
                raise InputError(
                    f"{where} has no column {name!r} ({what}). It has: {listed(names)}."
                    f"{did_you_mean(name, names)}"
                )

    def answer(self, chunk: Chunk, encode: Callable[[Answers], _T]) -> Iterator[_T | RowError]:
        """What `encode` makes of the answers, in the order of the rows."""
        return by_parts(chunk, lambda part: encode(self.asked(part)))

    def asked(self, chunk: Chunk) -> Answers:
        """The answers; ValueError, TypeError or OverflowError where there are none."""
        count, first = len(chunk), chunk.first
        inputs = chunk.inputs(self._signature, self._schema)
        outputs = called(self._signature, inputs, first, count)
        columns = columns_of(self._signature, outputs, count)
        return Answers(count, columns, chunk.kept(self._keep))
