"""A user's program: found, loaded, asked for what it makes, and its errors told from its side."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.group import FAILED

if TYPE_CHECKING:
    from estimand.core.spec import EvalSpec, TrainSpec

TO_TRAIN = (
    "an est.Experiment, (estimator, train_spec, eval_spec), or a function that returns one of these"
)
TO_EVALUATE = (
    "an est.Experiment, (estimator, train_spec, eval_spec), (estimator, eval_spec), or a function "
    "that returns one of these"
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFAULT_NAMES = ("experiment", "make_experiment")


@dataclass(frozen=True)
class Program:
    """`file.py[:NAME]` or `module[:NAME]`; NAME is `experiment` or `make_experiment` if left out.

    >>> Program.parse("train.py:make"), Program.parse("package.module")
    (Program(where='train.py', name='make'), Program(where='package.module', name=None))
    """

    where: str
    name: str | None
    wanted: str = field(default=TO_EVALUATE, repr=False)  # what NAME may be

    @classmethod
    def parse(cls, text: str, wanted: str = TO_EVALUATE) -> Program:
        where, colon, name = text.rpartition(":")
        # A path of Windows has a colon, too: what follows it is no name.
        if not colon or not name.isidentifier():
            where, name = text, ""
        return cls(where, name or None, wanted)

    def check(self) -> Program:
        """That it is there, before TensorFlow is loaded for it."""
        if self.where.endswith(".py"):
            if not os.path.isfile(self.where):
                raise click.UsageError(_no_file(self.where))
            with open(self.where, "rb") as file:
                if not may_bind(file.read(), self._names):
                    raise self._nothing_of_that_name()
        elif os.path.sep in self.where or os.path.exists(self.where):
            raise click.UsageError(
                f"{self.where!r} is no Python file. Give file.py[:NAME] or module[:NAME]."
            )
        else:
            with _on_path(os.getcwd()):
                try:
                    spec = importlib.util.find_spec(self.where)
                except (ModuleNotFoundError, ValueError):
                    spec = None
            if spec is None:
                raise click.UsageError(
                    f"There is no module {self.where!r}. Give the path of a file, as in train.py."
                )
        return self

    def load(self, arguments: Sequence[str] = ()) -> tuple[str, Any]:
        """NAME, and what the program calls so. It finds `arguments` in `sys.argv[1:]`."""
        sys.argv = [self.where, *arguments]
        module = self._module()
        for name in self._names:
            if hasattr(module, name):
                return name, getattr(module, name)
        raise self._nothing_of_that_name()

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,) if self.name else _DEFAULT_NAMES

    def _nothing_of_that_name(self) -> click.UsageError:
        if self.name:
            return click.UsageError(
                f"{self.where} has no {self.name!r}. Let it have {self.wanted}, called {self.name}."
            )
        either = " or ".join(_DEFAULT_NAMES)
        script = f"python {self.where}" if self.where.endswith(".py") else f"python -m {self.where}"
        old = f" (estimand run {self.where}, if it uses tf.estimator)"
        return click.UsageError(
            f"{self.where} has no {either}. Let it have {self.wanted}, called {either}; or say "
            f"what it is called: {self.where}:NAME. A script that trains by itself is run by "
            f"{script}{old if self.where.endswith('.py') else ''}."
        )

    def _module(self) -> ModuleType:
        if not self.where.endswith(".py"):
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(self.where)
        # As `python file.py` does; and it stays, for what the program imports later.
        sys.path.insert(0, os.path.dirname(os.path.abspath(self.where)))
        spec = importlib.util.spec_from_file_location("estimand_program", self.where)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses and pickle look there
        spec.loader.exec_module(module)
        return module


@dataclass(frozen=True)
class ProgramParts:
    """What a program makes. Without a `train_spec` it can only be evaluated."""

    estimator: Any
    train_spec: TrainSpec | None
    eval_specs: list[EvalSpec]
    experiment: Any = None

    @classmethod
    def by(
        cls, program: Program, arguments: Sequence[str], settings: dict[str, Any]
    ) -> ProgramParts:
        """Load the program and have it make what it makes."""
        from estimand.cli.settings import call

        name, named = program.load(arguments)
        what = f"{name} of {program.where}"
        if callable(named) and not hasattr(named, "train_spec"):  # an Experiment has one
            return cls.of(call(named, settings, what), what, program.wanted)
        if settings:
            raise click.UsageError(
                f"{what} is no function, so that there is nothing to set. Let a function make it."
            )
        return cls.of(named, what, program.wanted)

    @classmethod
    def of(cls, named: Any, what: str, wanted: str = TO_EVALUATE) -> ProgramParts:
        from estimand.core.spec import EvalSpec, TrainSpec
        from estimand.estimator.estimator import Estimator
        from estimand.estimator.lifecycle.experiment import Experiment

        if isinstance(named, Experiment):
            return cls(named.estimator, named.train_spec, [named.eval_spec], named)
        if isinstance(named, tuple) and len(named) in (2, 3) and isinstance(named[0], Estimator):
            estimator, *train, last = named
            evals = [last] if isinstance(last, EvalSpec) else list(last)
            fits = [isinstance(spec, TrainSpec) for spec in train]
            fits += [isinstance(spec, EvalSpec) for spec in evals]
            if evals and all(fits):
                return cls(estimator, train[0] if train else None, evals)
        raise click.UsageError(f"{what} gives {named!r}, but has to be {wanted}.")


def may_bind(source: bytes, names: Collection[str]) -> bool:
    """Whether a program may have one of the names, told without running it.

    Running may take hours, if it is a script that trains. What cannot be told, may.

    >>> may_bind(b"def experiment(): ...", ["experiment"]), may_bind(b"main()", ["experiment"])
    (True, False)
    """
    try:
        nodes = list(_outside_of_functions(ast.parse(source)))
    except (SyntaxError, ValueError):  # to be told by whoever runs it
        return True
    return not {*names, "*", "__getattr__"}.isdisjoint(itertools.chain(*map(_bound, nodes)))


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """What is run when a module is; of functions only what they make global."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.Global))
        elif not isinstance(child, ast.ClassDef | ast.Lambda):
            yield from _outside_of_functions(child)


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).split(".")[0]]
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    if isinstance(node, ast.Global):
        return node.names
    if isinstance(node, ast.Constant):  # as in globals()["experiment"] = ...
        return [node.value] if isinstance(node.value, str) else []
    return [node.name] if isinstance(node, _DEFINITIONS) else []


# ------------------------------------------------------------------ errors


@contextlib.contextmanager
def told_from_its_side(verbose: bool) -> Iterator[None]:
    """An exception of the program is shown with the program's own frames; exit code 1."""
    try:
        yield
    except click.exceptions.ClickException:
        raise
    except Exception as error:
        if verbose:
            raise
        click.echo(folded(error), err=True, nl=False)
        raise click.exceptions.Exit(FAILED) from error


def folded(error: BaseException) -> str:
    """The traceback without the frames of packages: what somebody can change, and what is wrong."""
    own = [frame for frame in _frames(error.__traceback__) if _is_own(frame[0])]
    told = traceback.StackSummary.extract(iter(own), lookup_lines=True)
    left_out = sum(1 for _ in _frames(error.__traceback__)) - len(own)
    lines = ["Traceback (most recent call last):\n", *told.format()] if own else []
    lines += traceback.format_exception_only(error)
    if left_out:
        lines.append(f"({left_out} frames of packages left out; estimand --verbose shows them)\n")
    return "".join(lines)


def _frames(raised_through: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(raised_through)


def _is_own(frame: FrameType) -> bool:
    """Whether it is of the program, and neither ours, Python's nor of an installed package."""
    path = os.path.abspath(frame.f_code.co_filename)
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    library = os.path.dirname(os.path.abspath(os.__file__))
    parts = path.split(os.sep)
    if {"site-packages", "dist-packages"} & set(parts) or not os.path.exists(path):
        return False
    return not path.startswith((ours + os.sep, library + os.sep))


def _no_file(path: str) -> str:
    """
    >>> _no_file("/nowhere/train.py")
    "There is no file '/nowhere/train.py'."
    """
    folder = os.path.dirname(path) or "."
    there = (
        sorted(n for n in os.listdir(folder) if n.endswith(".py")) if os.path.isdir(folder) else []
    )
    shown = f" In {folder} there are: {', '.join(there[:6])}." if there else ""
    return f"There is no file {path!r}.{shown}"


@contextlib.contextmanager
def _on_path(directory: str) -> Iterator[None]:
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)
