"""What a program may find imported when it begins."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_MODULES = ("tensorflow", "estimand.estimator.estimator")
_USE_TENSORFLOW = {"tensorflow", "estimand", "keras"}
_ONLY_READ = {"get", "items", "keys", "values", "copy"}
_SET = {"putenv", "unsetenv", "load_dotenv"}


def modules_to_import(script: str) -> tuple[str, ...]:
    """TensorFlow, for one that uses it, and does not set variables that it reads on import."""
    from estimand.compat.program_files import program_files

    trees = [tree for text in program_files(script).values() if (tree := _parsed(text))]
    uses_tensorflow = any(_USE_TENSORFLOW & set(_imported(tree)) for tree in trees)
    return _MODULES if uses_tensorflow and not any(map(sets_variables, trees)) else ()


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def sets_variables(tree: ast.AST) -> bool:
    """Whether the environment is anything but read.

    >>> sets_variables(ast.parse("import os; os.environ['A'] = '1'"))
    True
    >>> sets_variables(ast.parse("import os; a = os.environ['A'], os.environ.get('B')"))
    False
    """
    nodes = list(ast.walk(tree))
    read = {id(value) for node in nodes for value in _read_only(node)}
    return any(_name(node) in {"environ", *_SET} and id(node) not in read for node in nodes)


def _read_only(node: ast.AST) -> list[ast.AST]:
    """What the node does no more with than read it."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [node.value]
    if isinstance(node, ast.Attribute) and node.attr in _ONLY_READ:
        return [node.value]
    if isinstance(node, ast.Compare):
        return list(node.comparators)
    return []


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.alias):  # by another name it could not be followed
        return node.name if node.asname or node.name in _SET else ""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
