"""Does a program want TensorFlow 1? Found in its source, without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_OF_SESSIONS = {
    "Graph",
    "InteractiveSession",
    "MonitoredTrainingSession",
    "Session",
    "get_default_graph",
    "get_session",
    "get_variable",
    "global_variables_initializer",
    "placeholder",
    "set_session",
}


def names_of_tensorflow(source: str, faces: Sequence[str] = ("tensorflow",)) -> list[str]:
    """The names below `tensorflow` (or other `faces` of it) that a program uses, as dotted paths.

    Those it only tries, inside `try: ... except AttributeError`, or uses if it finds them
    (`if hasattr(tf, "contrib")`, `if tf.__version__ < "2"`), do not count.

    >>> names_of_tensorflow("import tensorflow as tf\\nx = tf.placeholder(tf.float32)")
    ['float32', 'placeholder']
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    aliases = set()
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in faces and (alias.asname or alias.name == "tensorflow"):
                    aliases.add(alias.asname or alias.name)
    for node in walk_what_is_not_tried(tree):
        if isinstance(node, ast.Import):
            if any(alias.name.startswith("tensorflow.contrib") for alias in node.names):
                modules.add("contrib")
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.update(_imported_from(node))
        elif isinstance(node, ast.Attribute):
            root, path = _dotted(node)
            if root in aliases:
                modules.add(path)
    return sorted(modules)


def imported_packages(source: str) -> set[str]:
    """The top names of what a program imports, but for what it only tries.

    >>> sorted(imported_packages("import a.b\\nfrom c import d\\nfrom . import e"))
    ['a', 'c']
    """
    try:
        nodes = list(walk_what_is_not_tried(ast.parse(source)))
    except SyntaxError:
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) and not n.level]
    return {name.partition(".")[0] for name in names}


def asks_for_contrib(source: str) -> bool:
    """Whether a program uses `tf.contrib`, rather than look whether it is there.

    >>> asks_for_contrib("import tensorflow as tf\\ntf.contrib.layers.flatten(x)")
    True
    >>> asks_for_contrib("import tensorflow as tf\\nOLD = hasattr(tf, 'contrib')")
    False
    """
    names = names_of_tensorflow(source, ("tensorflow", "tensorflow.compat.v1"))
    return any(name.partition(".")[0] == "contrib" for name in names)


def looks_for_contrib(source: str) -> bool:
    """Whether a program looks for `tf.contrib` without needing it: it has a way to do without.

    >>> looks_for_contrib("import tensorflow as tf\\nOLD = hasattr(tf, 'contrib')")
    True
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return False
    names_contrib = any(
        getattr(node, "attr", None) == "contrib"
        or (isinstance(node, ast.Constant) and node.value == "contrib")
        or (isinstance(node, ast.ImportFrom) and "contrib" in _imported_from(node))
        for node in nodes
    )
    return names_contrib and not asks_for_contrib(source)


def lines_that_import(source: str) -> frozenset[int]:
    """The lines of all statements that import, but for those that a program only tries.

    >>> sorted(lines_that_import("import a\\ntry:\\n  import b\\nexcept ImportError:\\n  b = None"))
    [1]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return frozenset()
    return frozenset(
        line
        for node in walk_what_is_not_tried(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def only_names_of(wanted: Any, other: Any, source: str) -> list[str]:
    """The names a program uses that one TensorFlow has and the other has not."""
    return [
        name
        for name in names_of_tensorflow(source)
        if not name.startswith("keras.") and _has(wanted, name) and not _has(other, name)
    ]


def trains_with_keras(source: str) -> bool:
    """Whether a program lets Keras train a model, and makes no graphs and sessions of its own.

    >>> trains_with_keras("import tensorflow as tf\\nm = tf.keras.Sequential()\\nm.fit(x, y)")
    True
    """
    names = names_of_tensorflow(source)
    if not names or any(name.rpartition(".")[2] in _OF_SESSIONS for name in names):
        return False
    named = any(name.startswith("keras") for name in names) or "tensorflow.keras" in source
    return named and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("fit", "fit_generator", "train_on_batch")
        for node in ast.walk(ast.parse(source))
    )


def _imported_from(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    if module == "tensorflow":
        yield from (alias.name for alias in node.names)
    elif module.startswith("tensorflow.contrib"):
        yield "contrib"


def walk_what_is_not_tried(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a program but for what it only tries, or uses if it finds it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Attribute) and _dotted(node)[0]:
            continue  # the shorter paths inside a path say nothing new
        if isinstance(node, ast.Try) and _catches_missing_names(node):
            children = [*node.finalbody, *node.orelse]
        if isinstance(node, ast.If | ast.IfExp) and _asks_what_there_is(node.test):
            children = []
        waiting.extend(children)


def _catches_missing_names(node: ast.Try) -> bool:
    caught = {name.id for handler in node.handlers for name in _names(handler.type)}
    return bool(caught & {"AttributeError", "Exception", "ImportError", "ModuleNotFoundError"}) or (
        any(handler.type is None for handler in node.handlers)
    )


def _asks_what_there_is(test: ast.AST) -> bool:
    """Whether a condition is about the TensorFlow at hand: then there is a way for each."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hasattr":
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("__version__", "VERSION"):
            return True
    return False


def _names(node: ast.AST | None) -> list[ast.Name]:
    return [] if node is None else [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def _dotted(node: ast.Attribute) -> tuple[str | None, str]:
    parts: list[str] = []
    current: ast.AST = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    root = current.id if isinstance(current, ast.Name) else None
    return root, ".".join(reversed(parts))


def _has(module: Any, path: str) -> bool:
    """Whether a name is there; a path is followed only as long as it leads through modules."""
    look: Callable[[Any], bool] = lambda value: type(value).__name__.endswith(  # noqa: E731
        ("Module", "module", "View", "Loader", "Wrapper")
    )
    for part in path.split("."):
        if not look(module):
            return True
        try:
            module = getattr(module, part)
        except (AttributeError, ImportError):
            return False
    return True
