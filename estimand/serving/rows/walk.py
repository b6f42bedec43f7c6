"""Evaluating a graph with values that stand for all: through functions, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef

from estimand.core import tf_private
from estimand.serving.rows import elementwise, layers, lists, shaping, sparse
from estimand.serving.rows.nodes import Node, Rule, sizes_of
from estimand.serving.rows.values import INVARIANT, MIXED, Handle, Value, constant, join

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **shaping.RULES,
    **layers.RULES,
    **sparse.RULES,
    **lists.RULES,
}
# Stateful only in name, or in what they read, which no request changes.
_HARMLESS = frozenset(
    [
        "Assert",
        "Case",
        "If",
        "LookupTableFind",
        "LookupTableFindV2",
        "LookupTableSize",
        "LookupTableSizeV2",
        "PartitionedCall",
        "ReadVariableOp",
        "ResourceGather",
        "StatefulPartitionedCall",
        "VarIsInitializedOp",
        "While",
        "VarHandleOp",
        "HashTable",
        "HashTableV2",
        "MutableHashTable",
        "MutableHashTableV2",
        "MutableDenseHashTable",
        "MutableDenseHashTableV2",
        "AnonymousHashTable",
        "AnonymousMutableHashTable",
        "AnonymousMutableDenseHashTable",
        "Variable",
        "VariableV2",
    ]
)
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
_LOOPS = frozenset({"While", "StatelessWhile"})
_MOST_STEPS = 60_000
_MOST_CALLS = 100  # inside of each other
_MOST_TURNS = 12


class TooLarge(Exception):
    """More work than the proof is worth."""


class Walk:
    """One graph with its functions. `waits` tells of a loop that may depend on what is asked."""

    def __init__(self, graph: GraphDef) -> None:
        self._functions = {function.signature.name: function for function in graph.library.function}
        self._steps = 0
        self.waits = False

    def evaluate(
        self,
        nodes: Mapping[str, Any],
        given: Mapping[str, Value],
        wanted: list[str],
        path: tuple[str, ...],
        in_loop: bool,
    ) -> list[Value]:
        """The values of these tensors. `given` are those of tensors and nodes that are known."""
        return self.evaluate_in(self.scope(nodes, given, path, in_loop), wanted)

    def scope(
        self,
        nodes: Mapping[str, Any],
        given: Mapping[str, Value],
        path: tuple[str, ...] = (),
        in_loop: bool = False,
    ) -> Scope:
        return Scope(nodes, dict(given), path, in_loop, self._definition)

    def evaluate_in(self, scope: Scope, wanted: list[str]) -> list[Value]:
        """What was evaluated in a scope before is not evaluated again."""
        nodes = scope.nodes
        waiting = [scope.node_of(name) for name in wanted if scope.needs(name)]
        while waiting:
            name = waiting[-1]
            if name in scope.done:
                waiting.pop()
                continue
            missing = [scope.node_of(i) for i in nodes[name].input if scope.needs(i)]
            if missing:
                if len(waiting) > len(nodes) * 2 + 10:  # a circle
                    raise TooLarge
                waiting += missing
                continue
            waiting.pop()
            scope.done[name] = self._node(scope, nodes[name])
        return [scope.value(name) for name in wanted]

    def _definition(self, op: str) -> Any:
        function = self._functions.get(op)
        return tf_private.op_definition(op) if function is None else function.signature

    def _node(self, scope: Scope, definition: Any) -> list[Value]:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TooLarge
        node = Node(definition, scope.path, scope.in_loop)
        values = [scope.value(name) for name in definition.input if name[0] != "^"]
        count = scope.count_of_outputs(definition)
        result = self._outputs(node, values)
        outputs = result if isinstance(result, list) else [result]
        if len(outputs) != count:
            return [MIXED] * count
        if any(output.is_mixed for output in outputs) and self._is_pure(node, values):
            return [INVARIANT if output.is_mixed else output for output in outputs]
        return outputs

    def _is_pure(self, node: Node, values: list[Value]) -> bool:
        """Whether it has to give the same for all, whatever it does."""
        if node.op in _CALLS | _BRANCHES | _LOOPS or node.op in self._functions:
            return False  # what is inside was looked at
        definition = self._definition(node.op)
        stateless = definition is not None and not definition.is_stateful
        return stateless and bool(values) and all(value.is_invariant for value in values)

    def _outputs(self, node: Node, values: list[Value]) -> Value | list[Value]:
        op = node.op
        if op in self._functions:
            return self._call(op, values, node)
        if op in _CALLS:
            return self._call(node.definition.attr["f"].func.name, values, node)
        if op in _BRANCHES:
            return self._branch(node, values)
        if op in _LOOPS:
            return self._loop(node, values)
        if op in _SOURCES:
            return _SOURCES[op](node)
        rule = RULES.get(op)
        return MIXED if rule is None else rule(node, values)

    # ------------------------------------------------------------ functions

    def _call(self, name: str, values: list[Value], node: Node, turn: bool = False) -> list[Value]:
        function = self._functions.get(name)
        if function is None or len(node.path) > _MOST_CALLS:
            raise TooLarge
        arguments = [argument.name for argument in function.signature.input_arg]
        if len(arguments) != len(values):
            raise TooLarge
        wanted = [function.ret[result.name] for result in function.signature.output_arg]
        return self.evaluate(
            {inside.name: inside for inside in function.node_def},
            dict(zip(arguments, values, strict=True)),
            wanted,
            (*node.path, node.definition.name),
            node.in_loop or turn,
        )

    def _branch(self, node: Node, values: list[Value]) -> list[Value]:
        choice, *rest = values
        attr = node.definition.attr
        if node.op.endswith("Case"):
            names = [function.name for function in attr["branches"].list.func]
        else:
            names = [attr["then_branch"].func.name, attr["else_branch"].func.name]
        outcomes: list[list[Value]] = []
        for index, name in enumerate(names):
            inside = Node(node.definition, (*node.path, str(index)), node.in_loop)
            outcomes.append(self._call(name, rest, inside))
        if not choice.is_invariant:
            return [MIXED] * len(outcomes[0])
        joined = outcomes[0]
        for outcome in outcomes[1:]:
            joined = [join(ours, theirs) for ours, theirs in zip(joined, outcome, strict=True)]
        return joined

    def _loop(self, node: Node, values: list[Value]) -> list[Value]:
        """What holds before the first turn and after each."""
        attr = node.definition.attr
        state = values
        for _ in range(_MOST_TURNS):
            (goes_on,) = self._call(attr["cond"].func.name, state, node, turn=True)
            after = self._call(attr["body"].func.name, state, node, turn=True)
            joined = [join(before, later) for before, later in zip(state, after, strict=True)]
            if joined == state:
                if goes_on.is_invariant:
                    return state
                break
            state = joined
        self.waits = True
        return [MIXED] * len(values)


class Scope:
    """The nodes of one graph or function call, and what is known of their outputs."""

    def __init__(
        self,
        nodes: Mapping[str, Any],
        given: dict[str, Value],
        path: tuple[str, ...],
        in_loop: bool,
        definition: Callable[[str], Any],
    ) -> None:
        self.path = path
        self.in_loop = in_loop
        self.done: dict[str, list[Value]] = {}
        self.nodes = nodes
        self._given = given
        self._definition = definition

    def node_of(self, name: str) -> str:
        node = name.lstrip("^").partition(":")[0]
        if node not in self.nodes:
            raise TooLarge
        return node

    def needs(self, name: str) -> bool:
        """Also what only has to run before: it may be something that no proof can be about."""
        if _canonical(name) in self._given or name in self._given:
            return False
        return self.node_of(name) not in self.done

    def value(self, name: str) -> Value:
        given = self._given.get(name) or self._given.get(_canonical(name))
        if given is not None:
            return given
        parts = name.split(":")
        outputs = self.done[parts[0]]
        if len(parts) == 3:  # in functions: by the name of the output
            index = self._start_of(self.nodes[parts[0]], parts[1]) + int(parts[2])
        else:
            index = int(parts[1]) if len(parts) == 2 else 0
        return outputs[index] if index < len(outputs) else MIXED

    def count_of_outputs(self, node: Any) -> int:
        definition = self._definition(node.op)
        if definition is None:
            raise TooLarge
        return sum(_length(node, argument) for argument in definition.output_arg)

    def _start_of(self, node: Any, name: str) -> int:
        start = 0
        for argument in self._definition(node.op).output_arg:
            if argument.name == name:
                return start
            start += _length(node, argument)
        raise TooLarge


def _canonical(name: str) -> str:
    return name if ":" in name or name[0] == "^" else f"{name}:0"


def _length(node: Any, argument: Any) -> int:
    if argument.number_attr:
        return int(node.attr[argument.number_attr].i)
    if argument.type_list_attr:
        return len(node.attr[argument.type_list_attr].list.type)
    return 1


# ---------------------------------------------------------------- where values come from


def _constant(node: Node) -> Value:
    tensor = node.definition.attr["value"].tensor
    shape = sizes_of(tensor.tensor_shape)
    if shape is None:
        return INVARIANT
    count = 1
    for size in shape:
        count *= size.number
    if count > 256 or tf.as_dtype(tensor.dtype) == tf.string:
        return Value(shape)
    return constant(tf.make_ndarray(tensor))


def _variable(node: Node) -> Value:
    shape = node.definition.attr["shape"].shape
    if node.op in ("Variable", "VariableV2"):
        known = sizes_of(shape)
        return INVARIANT if known is None else Value(known)
    return Value((), Handle(sizes_of(shape)))


def _table(node: Node) -> Value:
    return Value((), Handle())


def _unfed(node: Node) -> Value:
    return MIXED  # a run without it fails


_SOURCES: dict[str, Callable[[Node], Value]] = {
    "Const": _constant,
    "VarHandleOp": _variable,
    "Variable": _variable,
    "VariableV2": _variable,
    "Placeholder": _unfed,
}
_SOURCES |= dict.fromkeys((name for name in _HARMLESS if "HashTable" in name), _table)


def harmless(op: str, definition: Any) -> bool:
    """Whether running it once for all is as good as once for each."""
    return op in _HARMLESS or (definition is not None and not definition.is_stateful)
