"""Graphs of TensorFlow 1 whose variables were references, as messages with resources.

A `VariableV2` gave a reference: ops read through it, or wrote. A function has no such variables.
Here each one becomes a handle, which is somebody else's, and its reads and writes those of
resources. All names stay: `w:0` and `w/read:0` are the value, `w/Assign` assigns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.rewriting import subgraph

REFERENCES = frozenset({"VariableV2", "Variable"})
RESOURCES = frozenset({"VarHandleOp"})
_RESOURCE = tf.resource.as_datatype_enum
_WRITES = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
}
_ANSWERS = {"IsVariableInitialized": "VarIsInitializedOp", "CountUpTo": "ResourceCountUpTo"}
_BRANCHES = {"RefSwitch": "Switch", "RefEnter": "Enter"}


@dataclass
class Rewritten:
    """A graph without variables.

    Attributes:
      handles: by the name of a variable in the old graph, the tensor that the new one expects to
        be given: the variable's handle.
    """

    graph_def: Any
    handles: dict[str, str]

    def used_handles(self) -> dict[str, str]:
        """Those that anything uses: to map others is an error."""
        used = {name.split(":")[0] for node in self.graph_def.node for name in node.input}
        return {variable: name for variable, name in self.handles.items() if name in used}


def without_variables(
    graph_def: Any, references: Mapping[str, int], resources: Collection[str]
) -> Rewritten:
    """`graph_def` with handles in the place of variables.

    Args:
      references: names of nodes that are references of TensorFlow 1, with their types. Nodes that
        are no variables themselves stand for such as the graph is given from outside.
      resources: names of nodes that give handles.
    """
    return _Rewriting(graph_def, references, resources).done()


class _Rewriting:
    def __init__(
        self, graph_def: Any, references: Mapping[str, int], resources: Collection[str]
    ) -> None:
        self._old = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        self._references = references
        self._resources = resources
        self._new = tf.compat.v1.GraphDef(library=graph_def.library, versions=graph_def.versions)
        self._handles = {
            name: self._free(f"{name}/estimand_handle") for name in [*references, *resources]
        }

    def done(self) -> Rewritten:
        for node in self._old.node:
            if node.op in REFERENCES and node.name in self._references:
                self._read(node.name, self._handles[node.name], self._references[node.name])
            elif node.op in RESOURCES and node.name in self._resources:
                self._add(node.name, "Identity", [self._handles[node.name]], T=_RESOURCE)
            else:
                self._rewrite(node)
        for node in self._new.node:
            subgraph.drop_colocation(node, self._handles)  # a variable is no op here
        return Rewritten(self._new, self._handles)

    def _rewrite(self, node: Any) -> None:
        data, control = _inputs(node)
        passed = {i: self._handle(data[i]) for i in _reference_inputs(node)}
        handles = {i: handle for i, handle in passed.items() if handle is not None}
        if handles:
            self._rewrite_reference(node, handles)
        elif node.op == "Identity" and _source(data[0]) in self._references:
            # Reads when it is its turn, after what it waits for.
            name = _source(data[0])
            self._read(node.name, self._handles[name], self._references[name], control)
        else:
            copy = self._new.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend([*self._values(node), *control])

    def _rewrite_reference(self, node: Any, handles: Mapping[int, tuple[str, list[str]]]) -> None:
        """An op that takes references: one that writes, or hands one on."""
        _, control = _inputs(node)
        kind = node.attr["T"].type
        inputs = self._values(node, {i: handle for i, (handle, _) in handles.items()})
        waits = [*control, *(wait for _, before in handles.values() for wait in before)]
        first = inputs[min(handles)]
        if node.op in _BRANCHES:
            values = [*self._values(node), *control]
            self._copy(node, f"{node.name}/estimand_handle", [*inputs, *control], _RESOURCE)
            self._copy(node, node.name, values, kind)
        elif node.op == "RefIdentity":
            self._read(node.name, first, kind, waits)
        elif node.op in _ANSWERS:
            self._add_as(_ANSWERS[node.op], node, node.name, [*inputs, *waits])
        else:
            write = self._free(f"{node.name}/estimand_write")
            op = _WRITES.get(node.op, f"Resource{node.op}")
            self._add_as(op, node, write, [*inputs, *waits])
            self._read(node.name, first, kind, [f"^{write}"])

    def _values(self, node: Any, given: Mapping[int, str] | None = None) -> list[str]:
        """The inputs of a node: those that are `given`, handles of resources, values of others."""
        data, control = _inputs(node)
        result = []
        for number, name in enumerate(data):
            source = _source(name)
            if given is not None and number in given:
                result.append(given[number])
            elif source in self._resources:
                result.append(self._handles[source])
            elif source in self._references and (control or not self._is_variable(source)):
                read = self._free(f"{node.name}/estimand_read_{number}")
                self._read(read, self._handles[source], self._references[source], control)
                result.append(read)
            else:
                result.append(name)
        return result

    def _is_variable(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].op in REFERENCES

    def _handle(self, given: str) -> tuple[str, list[str]] | None:
        """What has the handle of a reference, and what has to be waited for; None: it is none."""
        source = _source(given)
        if source in self._references:
            return self._handles[source], []
        node = self._nodes.get(source)
        if node is None or not node.input or 0 not in _reference_inputs(node):
            return None
        before = self._handle(node.input[0])
        if before is None:
            return None
        if node.op in _BRANCHES:
            output = given.partition(":")[2] or "0"
            return f"{source}/estimand_handle:{output}", []
        return before[0], [f"^{source}"]

    def _read(self, name: str, handle: str, kind: int, control: Iterable[str] = ()) -> None:
        self._add(name, "ReadVariableOp", [handle, *control], dtype=kind)

    def _copy(self, node: Any, name: str, inputs: list[str], kind: int) -> None:
        copy = self._add(name, _BRANCHES[node.op], inputs)
        for attribute in node.attr:
            copy.attr[attribute].CopyFrom(node.attr[attribute])
        copy.attr["T"].type = kind

    def _add_as(self, op: str, node: Any, name: str, inputs: list[str]) -> None:
        """What `node` does to a reference, done to a resource."""
        definition = tf_private.op_definition(op)
        if definition is None:
            raise ModelFnError(
                f"model_fn imported a graph of TensorFlow 1 in which {node.op} ({node.name!r}) "
                "takes a variable by reference; there is no such operation for the variables of "
                "TensorFlow 2. Import a graph for predictions, or a frozen one."
            )
        made = self._add(name, op, inputs)
        for attribute in definition.attr:
            if attribute.name == "dtype":
                made.attr["dtype"].type = node.attr["T"].type
            elif attribute.name in node.attr and attribute.name != "validate_shape":
                made.attr[attribute.name].CopyFrom(node.attr[attribute.name])

    def _add(self, name: str, op: str, inputs: list[str], **types: int) -> Any:
        node = self._new.node.add(name=name, op=op)
        node.input.extend(given for given in inputs if not given.startswith("^"))
        node.input.extend(dict.fromkeys(given for given in inputs if given.startswith("^")))
        for attribute, kind in types.items():
            node.attr[attribute].type = kind
        return node

    def _free(self, name: str) -> str:
        while name in self._nodes:
            name += "_"
        return name


def _reference_inputs(node: Any) -> list[int]:
    """Which inputs of a node are references."""
    definition = tf_private.op_definition(node.op)
    if definition is None:
        return []
    return [i for i, argument in enumerate(definition.input_arg) if argument.is_ref]


def _inputs(node: Any) -> tuple[list[str], list[str]]:
    data = [given for given in node.input if not given.startswith("^")]
    return data, [given for given in node.input if given.startswith("^")]


def _source(given: str) -> str:
    return given.removeprefix("^").split(":")[0]
