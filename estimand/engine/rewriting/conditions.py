"""Conditions as loops of at most one turn, for TensorFlow's single-threaded executor.

That executor runs the branch of a condition in TensorFlow's pool of threads, and its own thread
waits for it. A condition inside of a condition therefore takes two threads, and where there are
fewer threads than levels, all of them wait for ever. Loops it runs in its own thread. So each
condition becomes one loop for every branch, which is over after its first turn, or before it::

    if p: then                        while p: then; p, rest = False, False
    else: otherwise                   while rest: otherwise; rest = False

Branches run the same ops on the same inputs as before, and nothing of those that are not taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

_BRANCHES = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})
_LOWERED = "_lower_using_switch_merge"
_ONLY_READ = "_read_only_resource_inputs"
# Functions write the outputs of ops by name; that of most is "output".
_OUTPUTS = {"Equal": "z", "EmptyTensorList": "handle"}
_BOOL, _INT = tf.bool.as_datatype_enum, tf.int32.as_datatype_enum


def problem(node: NodeDef) -> str | None:
    """Why a condition cannot become loops; None: it can, or is none.

    The loops need something to begin with in the place of a result, which a resource has not.
    """
    if node.op in _BRANCHES and tf.resource.as_datatype_enum in node.attr["Tout"].list.type:
        return f"one of its conditions gives a resource ({node.name})"
    return None


def as_loops(part: GraphDef) -> GraphDef:
    """`part`, a graph's message that may be changed, with all conditions as loops.

    Also those in functions that it calls. What takes the place of a condition has its name.
    """
    library = _Library(part.library)
    nodes = [
        new for node in part.node for new in library.without_conditions(node, in_function=False)
    ]
    del part.node[:]
    part.node.extend(nodes)
    return part


class _Library:
    """The functions of a graph's message; those that are changed get another name."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._functions = {f.signature.name: f for f in library.function}
        self._changed: dict[str, str] = {}  # by name: that of the function to call instead

    def without_conditions(self, node: NodeDef, *, in_function: bool) -> Iterator[Any]:
        """What does the same as a node of the graph, or of a function."""
        node.attr.pop(_LOWERED, None)
        self._call_changed(node)
        if node.op in _BRANCHES:
            yield from self._loops(node, in_function)
        else:
            yield node

    def _call_changed(self, node: NodeDef) -> None:
        for value in node.attr.values():
            for function in (value.func, *value.list.func):
                if function.name:
                    function.name = self._name_of_changed(function.name)

    def _name_of_changed(self, name: str) -> str:
        if name not in self._functions:
            return name
        if name not in self._changed:
            self._changed[name] = name  # one that calls itself calls what it did
            self._changed[name] = self._change(self._functions[name])
        return self._changed[name]

    def _change(self, function: Any) -> str:
        changed = type(function)()
        changed.CopyFrom(function)
        nodes = [
            new
            for node in changed.node_def
            for new in self.without_conditions(node, in_function=True)
        ]
        del changed.node_def[:]
        changed.node_def.extend(nodes)
        return function.signature.name if changed == function else self._add(changed)

    def _add(self, function: Any) -> str:
        """The name of a function, after what is in it: the same is placed into many graphs."""
        function.signature.name = ""
        content = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()
        name = f"estimand_{content[:24]}"
        if name not in self._functions:
            function.signature.name = name
            self._functions[name] = function
            self._library.function.append(function)
        return name

    def _loops(self, node: NodeDef, in_function: bool) -> Iterator[Any]:
        names, branches = _Names(node, in_function), _branches(node)
        given = [name for name in node.input if not name.startswith("^")]
        waits = [name for name in node.input if name.startswith("^")]
        yield (rest := names.constant("rest", True, _BOOL, waits))
        todo, results = names.output_of(rest), []
        for i, dtype in enumerate(node.attr["Tout"].list.type):
            yield from (made := names.nothing(f"result_{i}", dtype, waits))
            results.append(names.output_of(made[-1]))
        for i, branch in enumerate(branches):
            go, kind = todo, _BOOL
            if i < len(branches) - 1 and node.op.endswith("If"):
                go, kind = given[0], node.attr["Tcond"].type
            elif i < len(branches) - 1:
                yield (number := names.constant(f"number_{i}", i, _INT, waits))
                yield (equal := names.equal(f"is_{i}", given[0], names.output_of(number)))
                go = names.output_of(equal)
            loop = self._loop(node, names.of(f"branch_{i}"), branch, kind)
            loop.input.extend([go, todo, *given[1:], *results, *waits])
            yield loop
            todo, first = names.output_of(loop, 1), 1 + len(given)
            results = [names.output_of(loop, first + n) for n in range(len(results))]
        yield names.end(results, loop)

    def _loop(self, node: NodeDef, name: str, branch: str, kind: int) -> Any:
        """The loop of one branch, without its inputs."""
        arguments, results = node.attr["Tin"].list.type, node.attr["Tout"].list.type
        types = [kind, _BOOL, *arguments, *results]
        loop = tf.compat.v1.NodeDef(name=name, op=_loop_op(node.op), device=node.device)
        loop.attr["T"].list.type.extend(types)
        loop.attr["cond"].func.name = self._add(_first_of(types))
        loop.attr["body"].func.name = self._add(_one_turn(self._functions[branch], types))
        loop.attr["parallel_iterations"].i = 1
        shapes = node.attr["output_shapes"].list.shape
        known = list(shapes) if len(shapes) == len(results) else []
        for i in range(len(types)):
            at = i - (len(types) - len(known))
            shape = loop.attr["output_shapes"].list.shape.add(unknown_rank=True)
            if at >= 0:
                shape.CopyFrom(known[at])
        if _ONLY_READ in node.attr:  # one more input comes first
            only_read = [i + 1 for i in node.attr[_ONLY_READ].list.i]
            loop.attr[_ONLY_READ].list.i.extend(only_read)
        return loop


class _Names:
    """Makes the nodes around the loops of a condition, and names what they give."""

    def __init__(self, node: NodeDef, in_function: bool) -> None:
        self._node, self._in_function = node, in_function

    def of(self, what: str) -> str:
        return f"{self._node.name}/{what}"

    def output_of(self, node: NodeDef, index: int = 0) -> str:
        output = f":{_OUTPUTS.get(node.op, 'output')}" if self._in_function else ""
        return f"{node.name}{output}:{index}"

    def _new(self, name: str, op: str, inputs: Sequence[str]) -> Any:
        node = tf.compat.v1.NodeDef(name=name, op=op, device=self._node.device)
        node.input.extend(inputs)
        return node

    def constant(self, what: str, value: Any, dtype: int, waits: Sequence[str]) -> Any:
        node = self._new(self.of(what), "Const", waits)
        return _filled(node, value, dtype)

    def equal(self, what: str, left: str, right: str) -> Any:
        node = self._new(self.of(what), "Equal", [left, right])
        node.attr["T"].type = _INT
        node.attr["incompatible_shape_error"].b = True
        return node

    def nothing(self, what: str, dtype: int, waits: Sequence[str]) -> list[Any]:
        """The last of them stands in the place of a result until a branch has given it."""
        if dtype != tf.variant.as_datatype_enum:
            return [self.constant(what, None, dtype, waits)]
        size = self.constant(f"{what}_size", -1, _INT, waits)  # not told
        node = self._new(self.of(what), "EmptyTensorList", [self.output_of(size)] * 2)
        node.attr["element_dtype"].type = node.attr["shape_type"].type = _INT
        return [size, node]

    def end(self, results: Sequence[str], last: Any) -> Any:
        """Under the name of the condition, its results."""
        inputs, op = (results, "IdentityN") if results else ([f"^{last.name}"], "NoOp")
        node = self._new(self._node.name, op, inputs)
        if results:
            node.attr["T"].list.type.extend(self._node.attr["Tout"].list.type)
        return node


def _branches(node: NodeDef) -> list[str]:
    """The names of the functions; of a Case, the last is for all numbers that are out of range."""
    if node.op.endswith("If"):
        return [node.attr["then_branch"].func.name, node.attr["else_branch"].func.name]
    return [function.name for function in node.attr["branches"].list.func]


def _loop_op(condition: str) -> str:
    return "StatelessWhile" if condition.startswith("Stateless") else "While"


def _first_of(types: Sequence[int]) -> Any:
    """A function that gives the first of its arguments."""
    function = tf.compat.v1.GraphDef().library.function.add()
    for i, dtype in enumerate(types):
        function.signature.input_arg.add(name=f"given_{i}", type=dtype)
    function.signature.output_arg.add(name="go", type=types[0])
    function.ret["go"] = "given_0"
    return function


def _one_turn(branch: Any, types: Sequence[int]) -> Any:
    """A function that runs a branch on what the loop carries, and says that it is enough."""
    body = type(branch)()
    body.CopyFrom(branch)
    arguments = list(branch.signature.input_arg)
    results = [branch.ret[arg.name] for arg in branch.signature.output_arg]
    del body.signature.input_arg[:]
    body.signature.input_arg.add(name="estimand_go", type=types[0])
    body.signature.input_arg.add(name="estimand_todo", type=types[1])
    body.signature.input_arg.extend(arguments)
    for i in range(len(results)):
        dtype = types[2 + len(arguments) + i]
        body.signature.input_arg.add(name=f"estimand_result_{i}", type=dtype)
    _tell_of_moved(body, branch)
    outputs = [_false(body, "go", types[0]), _false(body, "todo", types[1])]
    outputs += [*(arg.name for arg in arguments), *results]
    del body.signature.output_arg[:]
    body.ret.clear()
    for i, (dtype, source) in enumerate(zip(types, outputs, strict=True)):
        body.signature.output_arg.add(name=f"carried_{i}", type=dtype)
        body.ret[f"carried_{i}"] = source
    return body


def _tell_of_moved(body: Any, branch: Any) -> None:
    """What is known of arguments, which now come after two others."""
    body.arg_attr.clear()
    body.resource_arg_unique_id.clear()
    for i, attributes in branch.arg_attr.items():
        body.arg_attr[i + 2].CopyFrom(attributes)
    for i, number in branch.resource_arg_unique_id.items():
        body.resource_arg_unique_id[i + 2] = number


def _false(body: Any, what: str, dtype: int) -> str:
    node = body.node_def.add(name=f"estimand_no_{what}", op="Const")
    return f"{_filled(node, None, dtype).name}:output:0"


def _filled(node: NodeDef, value: Any, dtype: int) -> Any:
    """A constant of a value; None: of zero, or whatever a type has in its place."""
    node.attr["dtype"].type = dtype
    if value is not None:
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.as_dtype(dtype)))
    else:  # written as a tensor without its values, also for types that NumPy has not
        node.attr["value"].tensor.dtype = dtype
        node.attr["value"].tensor.tensor_shape.SetInParent()
    return node
