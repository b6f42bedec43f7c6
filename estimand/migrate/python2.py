"""What is left of Python 2 in a file that Python 3 can read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from estimand.compat.python2 import written_today

# Built-in names, and what means the same today; None: more than another name is needed.
_NAMES = {
    "basestring": "(str, bytes)",
    "long": "int",
    "raw_input": "input",
    "reload": None,
    "unichr": "chr",
    "unicode": "str",
    "xrange": "range",
}
_METHODS = {"iteritems": "items", "iterkeys": "keys", "itervalues": "values"}
_VIEWS = ("items", "keys", "values")
_LISTS = ("filter", "map", "zip")
_BY_RUN = "Python 2 had it, and files of TensorFlow 1 get it; "


@dataclass(frozen=True)
class Remnant:
    """A piece of Python 2: the node, what to say of it, and what can be written in its place.

    `given_back` says whether `estimand run` gives it to files of TensorFlow 1.
    """

    node: ast.expr | ast.stmt
    text: str
    advice: str
    today: str | None
    given_back: bool


def remnants(tree: ast.Module) -> Iterator[Remnant]:
    """All of them.

    >>> tree = ast.parse("for i in xrange(3): print(counts.iteritems())")
    >>> [(one.text, one.today) for one in remnants(tree)]
    [('xrange', 'range'), ('.iteritems()', 'items')]
    """
    bound = _bound(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in _NAMES and node.id not in bound:
                yield _name(node)
        elif isinstance(node, ast.Call):
            yield from _method(node)
        elif isinstance(node, ast.Subscript):
            yield from _of_no_list(node, bound)
    yield from _imports(tree)


def _name(node: ast.Name) -> Remnant:
    today = _NAMES[node.id]
    write = f"write {today}" if today else "write importlib.reload"
    return Remnant(node, node.id, _BY_RUN + write, today, given_back=True)


def _method(call: ast.Call) -> Iterator[Remnant]:
    if not isinstance(call.func, ast.Attribute) or call.keywords:
        return
    name = call.func.attr
    if name in _METHODS and not call.args:
        today = _METHODS[name]
        advice = f"Python 3 has no such method of dicts: write .{today}()"
        yield Remnant(call.func, f".{name}()", advice, today, given_back=False)
    elif name == "isAlive" and not call.args:
        advice = "Python has dropped it of threads, and old code gets it; today: .is_alive()"
        yield Remnant(call.func, ".isAlive()", advice, None, given_back=True)
    elif name == "has_key" and len(call.args) == 1:
        key, owner = ast.unparse(call.args[0]), ast.unparse(call.func.value)
        advice = f"Python 3 has no such method of dicts: write {key} in {owner}"
        yield Remnant(call, ".has_key(...)", advice, None, given_back=False)


def _of_no_list(node: ast.Subscript, bound: set[str]) -> Iterator[Remnant]:
    """`d.keys()[0]` and `map(f, xs)[0]`: what is taken from is no list any more."""
    call = node.value
    if not isinstance(call, ast.Call):
        return
    method = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if method in _VIEWS and not call.args and not call.keywords:
        text = f".{method}()[...]"
        advice = f"no list in Python 3: write list({ast.unparse(call)})"
        yield Remnant(node, text, advice, None, given_back=False)
    elif isinstance(call.func, ast.Name) and call.func.id in _LISTS and call.func.id not in bound:
        advice = f"{_BY_RUN}no list in Python 3: write list({call.func.id}(...))"
        yield Remnant(node, f"{call.func.id}(...)[...]", advice, None, given_back=True)


def _imports(tree: ast.Module) -> Iterator[Remnant]:
    """Modules that have another name today, and what `itertools` has lost; not what is tried."""
    tried = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        for inside in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in tried or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
        for name in names:
            if today := written_today(name):
                text = ast.unparse(node)
                yield Remnant(node, text, f"{_BY_RUN}today: {today}", None, given_back=True)


def _bound(tree: ast.Module) -> set[str]:
    """Names that the file gives a meaning of its own, wherever that is."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found
