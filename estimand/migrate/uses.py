"""The names of TensorFlow, Keras and Estimand that a source file uses, with aliases followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

ROOTS = ("estimand", "keras", "tensorflow", "tensorflow_estimator")
_MISSING_NAMES = {"AttributeError", "Exception", "ImportError", "ModuleNotFoundError"}


@dataclass(frozen=True)
class Target:
    """What a name in the source stands for.

    `of_tf` is true if it was reached as an attribute of `import tensorflow as tf`: of which
    TensorFlow that is, 1 or 2, is decided for each file.
    """

    path: str
    of_tf: bool = False

    def below(self, name: str) -> Target:
        return Target(f"{self.path}.{name}", self.of_tf)


@dataclass(frozen=True)
class Use:
    """A name that is used, where, and as what the source has it."""

    target: Target
    line: int
    text: str


@dataclass
class SourceUses:
    """All uses in a file, and what idioms need to know."""

    tree: ast.Module
    uses: list[Use] = field(default_factory=list)
    # Calls whose function is known, and what names were assigned: for idioms.
    callee: dict[ast.Call, Target] = field(default_factory=dict)
    made_by: dict[str, Target] = field(default_factory=dict)

    @property
    def paths(self) -> set[str]:
        return {use.target.path for use in self.uses}


def find_uses(source: str) -> SourceUses:
    """The uses in a source text; those that are only tried do not count.

    >>> source_uses = find_uses('''
    ... import tensorflow as tf
    ... layers = tf.layers
    ... y = layers.dense(tf.ones([1]), 2)
    ... ''')
    >>> [(use.line, use.target.path) for use in source_uses.uses[1:]]
    [(3, 'tensorflow.layers'), (4, 'tensorflow.layers.dense'), (4, 'tensorflow.ones')]

    Raises:
      SyntaxError: it is no Python 3.
    """
    tree = ast.parse(source)
    finder = _Finder(tree)
    finder.visit_scope(tree.body, [])
    finder.source_uses.uses.sort(key=lambda use: (use.line, use.target.path))
    return finder.source_uses


class _Finder(ast.NodeVisitor):
    """Walks one scope after the other; `_scopes` has what each binds, innermost last."""

    def __init__(self, tree: ast.Module) -> None:
        self.source_uses = SourceUses(tree)
        self._scopes: list[dict[str, Target | None]] = []

    def visit_scope(self, body: list[ast.stmt], arguments: list[str]) -> None:
        bound: dict[str, Target | None] = dict.fromkeys(arguments)
        self._scopes.append(bound)
        for node in _nodes_of_scope(body):
            self._bind(node, bound)
        for statement in body:
            self.visit(statement)
        self._scopes.pop()

    # What names stand for

    def _bind(self, node: ast.AST, bound: dict[str, Target | None]) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name, target = _imported(alias)
                bound.setdefault(name, target)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound.setdefault(alias.asname or alias.name, _imported_from(node, alias))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            assigned = node.targets[0]
            if isinstance(assigned, ast.Name):
                bound.setdefault(assigned.id, self._target(node.value))
                self._note_made(assigned.id, node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.setdefault(node.id, None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.setdefault(node.name, None)

    def _note_made(self, name: str, value: ast.expr) -> None:
        callee = self._target(value.func) if isinstance(value, ast.Call) else None
        if callee is not None:
            self.source_uses.made_by.setdefault(name, callee)

    def _target(self, node: ast.AST) -> Target | None:
        if isinstance(node, ast.Name):
            for bound in reversed(self._scopes):
                if node.id in bound:
                    return bound[node.id]
            return None
        if isinstance(node, ast.Attribute):
            owner = self._target(node.value)
            return None if owner is None else owner.below(node.attr)
        return None

    # The walk

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if part is not None:
                self.visit(part)
        self.visit_scope(node.body, _argument_names(node.args))

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._scopes.append(dict.fromkeys(_argument_names(node.args)))
        self.visit(node.body)
        self._scopes.pop()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if _root(alias.name) in ROOTS:
                # As `import a.b` says, not as the name that it binds.
                of_tf = _root(alias.name) == "tensorflow" and "compat" not in alias.name.split(".")
                self._note(Target(alias.name, of_tf), node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            target = _imported_from(node, alias)
            if target is not None:
                self._note(target, node.lineno, target.path)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        target = self._target(node)
        if target is None:
            self.generic_visit(node)
        else:
            self._note(target, node.lineno, ast.unparse(node))

    def visit_Call(self, node: ast.Call) -> None:
        target = self._target(node.func)
        if target is not None:
            self.source_uses.callee[node] = target
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        """What is only tried, and what is done instead, says nothing of what is needed."""
        if not _catches_missing_names(node):
            self.generic_visit(node)
            return
        for statement in (*node.orelse, *node.finalbody):
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        """A program that asks for the version, or whether a name is there, knows its way."""
        if not _asks_for_the_version(node.test):
            self.generic_visit(node)

    def _note(self, target: Target, line: int, text: str) -> None:
        self.source_uses.uses.append(Use(target, line, text))


# ------------------------------------------------------------------ imports


def _imported(alias: ast.alias) -> tuple[str, Target | None]:
    """`import a.b` binds a, `import a.b as c` binds c to a.b."""
    root = _root(alias.name)
    if root not in ROOTS:
        return alias.asname or root, None
    of_tf = root == "tensorflow" and not alias.name.startswith("tensorflow.compat")
    if alias.asname:
        return alias.asname, Target(alias.name, of_tf)
    return root, Target(root, of_tf)


def _imported_from(node: ast.ImportFrom, alias: ast.alias) -> Target | None:
    if node.level or not node.module or _root(node.module) not in ROOTS or alias.name == "*":
        return None
    return Target(f"{node.module}.{alias.name}", of_tf=node.module == "tensorflow")


def _root(path: str) -> str:
    return path.partition(".")[0]


# ------------------------------------------------------------------ scopes


def _nodes_of_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that bind names in this scope, not in those inside; handlers come last."""
    later: list[ast.AST] = []
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Try):
            later.extend(node.handlers)
            children = [*node.body, *node.orelse, *node.finalbody]
            waiting.extend(reversed(children))
            continue
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    for handler in later:
        if isinstance(handler, ast.ExceptHandler):
            yield from _nodes_of_scope(handler.body)


def _argument_names(arguments: ast.arguments) -> list[str]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [a.arg for a in (*named, arguments.vararg, arguments.kwarg) if a is not None]


def _catches_missing_names(node: ast.Try) -> bool:
    for handler in node.handlers:
        if handler.type is None:
            return True
        if any(isinstance(n, ast.Name) and n.id in _MISSING_NAMES for n in ast.walk(handler.type)):
            return True
    return False


def _asks_for_the_version(test: ast.expr) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr in ("__version__", "VERSION"):
            return True
        if isinstance(node, ast.Name) and node.id in ("hasattr", "LooseVersion", "parse_version"):
            return True
    return False
