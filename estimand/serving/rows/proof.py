"""The question that is asked of a graph: may requests for these outputs be joined?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.compat.v1 import GraphDef

from estimand.core import tf_private
from estimand.serving.rows import graph_scan
from estimand.serving.rows.sizes import ROWS, Size, Symbol
from estimand.serving.rows.values import MIXED, Value, plain
from estimand.serving.rows.walk import TooLarge, Walk, harmless

log = logging.getLogger("estimand.serving")


@dataclass(frozen=True)
class Finding:
    """Of one tensor."""

    row_by_row: bool  # each request gets the rows that it would get alone
    may_wait: bool  # how long it takes may depend on what is asked, without a bound


class Proof:
    """For one set of inputs of a graph: by tensor, with the shapes that the signature gives them.

    -1 stands for what a request may choose; the first size of each has to be that.
    """

    def __init__(self, graph: GraphDef, inputs: Mapping[str, tuple[int, ...] | None]) -> None:
        self._graph = graph
        self._functions = {function.signature.name for function in graph.library.function}
        self._walk = Walk(graph)
        self._scope = self._walk.scope(
            {node.name: node for node in graph.node},
            {name: _input(name, shape) for name, shape in inputs.items()},
        )
        self._findings: dict[str, Finding] = {}

    def of(self, outputs: Sequence[str]) -> Finding:
        """Each tensor is looked at once."""
        for name in outputs:
            if name not in self._findings:
                self._findings[name] = self._look(name)
        findings = [self._findings[name] for name in outputs]
        return Finding(
            bool(findings) and all(finding.row_by_row for finding in findings),
            any(finding.may_wait for finding in findings),
        )

    def _look(self, name: str) -> Finding:
        ops = {node.op for node in graph_scan.reachable(self._graph, [name])}
        may_wait = any(map(graph_scan.may_wait, ops))
        try:
            (value,) = self._walk.evaluate_in(self._scope, [name])
        except TooLarge:
            return Finding(False, may_wait or any(map(graph_scan.is_loop, ops)))
        except Exception:  # a graph that is not as graphs are: TensorFlow will say so
            log.debug("nothing can be said about %s", name, exc_info=True)
            return Finding(False, True)
        no_effects = all(
            op in self._functions or harmless(op, tf_private.op_definition(op)) for op in ops
        )
        return Finding(_is_row_by_row(value) and no_effects, may_wait or self._walk.waits)


def _input(name: str, shape: tuple[int, ...] | None) -> Value:
    if not shape or shape[0] != -1:
        return MIXED
    sizes = [ROWS]
    for place, size in enumerate(shape[1:], 1):
        sizes.append(Size(size) if size >= 0 else Size.of(Symbol("fixed", (name, place))))
    return plain(sizes)


def _is_row_by_row(value: Value) -> bool:
    axes = value.axes
    if not value.is_plain or not axes:
        return False
    return axes[0] == ROWS and all(size.is_fixed for size in axes[1:])
