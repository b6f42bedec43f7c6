"""A look at the first batch: what is likely a mistake in the data, as one table.

It costs one pass over one batch, and only warns: a constant column may be meant.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimand.core import expectations
from estimand.engine.feeding.batches import pack_batch
from estimand.engine.running.ready_run import OnFirstBatch
from estimand.engine.tracing.trace import Trace
from estimand.features.oov import out_of_vocabulary
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("estimand")

# In fewer rows than this a column may well be constant by chance.
_FEWEST_ROWS = 16


class Finding(NamedTuple):
    """One line of the table."""

    where: str
    problem: str
    example: str


class DataCheck:
    """Looks at the first batch that a traced model function is trained on, once."""

    def __init__(self, trace: Trace, given: ModelInput, *, wanted: bool) -> None:
        self._trace = trace
        self._given = given
        self.wanted = wanted and given.fed is None and not trace.data_checked

    def look(self, batch: Sequence[tf.Tensor]) -> None:
        """Check one batch, as the step took it."""
        self._trace.data_checked = True
        self.wanted = False
        warn_of_findings(self._trace.graph, *pack_batch(self._given.element_spec, batch))

    def on_first_batch(self, replicas: int) -> OnFirstBatch | None:
        """What to do with the first batch, which is one for each replica; None: nothing."""
        return (lambda batch: self.look(batch[: len(batch) // replicas])) if self.wanted else None

    def after_failure(self) -> None:
        """The first step failed, maybe because of what the check would have told."""
        if self.wanted:
            self.wanted = False
            with contextlib.suppress(tf.errors.OpError, StopIteration):
                first = next(iter(self._given.dataset.take(1)))
                features, labels = self._given.unpack(first)
                warn_of_findings(self._trace.graph, features, labels)


def warn_of_findings(graph: tf.Graph, features: Any, labels: Any) -> None:
    """Log a table of what looks wrong in one batch; nothing when all is well."""
    rows = findings(graph, features, labels)
    if rows:
        _log.warning(
            "The first batch has values that are likely not meant:\n%s\n"
            "RunConfig(check_data=False) leaves this check out.",
            _table(rows),
        )


def findings(graph: tf.Graph, features: Any, labels: Any) -> list[Finding]:
    """What looks wrong in one batch of eager tensors."""
    parts = [*_leaves("feature", features), *_leaves("label", labels)]
    problems = [*_uneven(parts)]
    for name, value in parts:
        problems += _not_finite(name, value)
        if name.startswith("feature") and not found_for(problems, name):
            problems += _constant(name, value)
    for head, low, high in expectations.label_ranges(graph):
        problems += _out_of_range(labels, head, low, high)
    return problems + list(_unknown(graph, features))


def found_for(problems: list[Finding], name: str) -> bool:
    return any(finding.where == name for finding in problems)


def _leaves(title: str, part: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    if part is None:
        return
    if isinstance(part, Mapping):
        for key, value in part.items():
            yield from _leaves(title, value, f"{path}/{key}" if path else str(key))
    elif isinstance(part, (list, tuple)):
        for index, value in enumerate(part):
            yield from _leaves(title, value, f"{path}/{index}" if path else str(index))
    else:
        name = f"{title} {path!r}" if path else title
        values = part.values if isinstance(part, tf.SparseTensor) else part
        if isinstance(part, tf.RaggedTensor):
            values = part.flat_values
        dense = isinstance(part, tf.Tensor)
        yield (name if dense else f"{name} (values)"), np.asarray(values)


def _uneven(parts: list[tuple[str, np.ndarray]]) -> Iterator[Finding]:
    sizes = {n: v.shape[0] for n, v in parts if v.ndim and not n.endswith("(values)")}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        yield Finding("batch", "parts have different numbers of rows", shown)


def _not_finite(name: str, value: np.ndarray) -> Iterator[Finding]:
    if value.dtype.kind != "f" or not value.size:
        return
    bad = ~np.isfinite(value)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        share = f"{bad.sum()} of {value.size} values are NaN or infinite"
        yield Finding(name, share, f"row {row}: {value[row]}"[:60])


def _constant(name: str, value: np.ndarray) -> Iterator[Finding]:
    if value.ndim == 0 or value.shape[0] < _FEWEST_ROWS or not value.size:
        return
    first = value[:1]
    if bool((value == first).all()):
        yield Finding(name, f"the same in all {value.shape[0]} rows", str(first[0])[:60])


def _out_of_range(labels: Any, head: str | None, low: float, high: float) -> Iterator[Finding]:
    if isinstance(labels, Mapping):
        labels = labels.get(head) if head is not None else None
    if not isinstance(labels, tf.Tensor) or not (
        labels.dtype.is_integer or labels.dtype.is_floating
    ):
        return
    value = labels.numpy()
    bad = (value < low) | (value > high)
    if bad.any():
        where = "label" if head is None else f"label {head!r}"
        problem = f"{bad.sum()} of {value.size} labels are outside of {low:g} to {high:g}"
        yield Finding(where, problem, str(value[bad][0]))


def _unknown(graph: tf.Graph, features: Any) -> Iterator[Finding]:
    columns = expectations.columns(graph)
    if not columns or not isinstance(features, Mapping):
        return
    try:
        unknown = out_of_vocabulary(columns, features)
    except Exception as error:  # a check must never be what stops a training
        _log.debug("Vocabularies were not checked: %s", error)
        return
    for name, share in unknown.items():
        if share.missing + share.out_of_vocabulary >= 1:
            kind = "missing" if share.missing >= 1 else "missing or not in the vocabulary"
            yield Finding(f"column {name!r}", f"all values are {kind}", "")


def _table(problems: list[Finding]) -> str:
    rows = [("where", "what", "for example"), *problems]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join("  " + line.rstrip() for line in lines)
