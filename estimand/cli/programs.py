"""A user's program: found, loaded, asked for what it makes, and its errors told from its side."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.group import FAILED

if TYPE_CHECKING:
    from estimand.core.spec import EvalSpec, TrainSpec

WANTED = (
    "an est.Experiment, (estimator, train_spec, eval_spec), (estimator, eval_spec), or a function "
    "that returns one of these"
)
_DEFAULT_NAMES = ("experiment", "make_experiment")


@dataclass(frozen=True)
class Program:
    """`file.py[:NAME]` or `module[:NAME]`; NAME is `experiment` or `make_experiment` if left out.

    >>> Program.parse("train.py:make"), Program.parse("package.module")
    (Program(where='train.py', name='make'), Program(where='package.module', name=None))
    """

    where: str
    name: str | None

    @classmethod
    def parse(cls, text: str) -> Program:
        where, colon, name = text.rpartition(":")
        # A path of Windows has a colon, too: what follows it is no name.
        return cls(where, name) if colon and name.isidentifier() else cls(text, None)

    def check(self) -> Program:
        """That it is there, before TensorFlow is loaded for it."""
        if self.where.endswith(".py"):
            if not os.path.isfile(self.where):
                raise click.UsageError(_no_file(self.where))
        elif os.path.sep in self.where or os.path.exists(self.where):
            raise click.UsageError(
                f"{self.where!r} is no Python file. Give file.py[:NAME] or module[:NAME]."
            )
        else:
            with _on_path(os.getcwd()):
                try:
                    found = importlib.util.find_spec(self.where)
                except (ModuleNotFoundError, ValueError):
                    found = None
            if found is None:
                raise click.UsageError(
                    f"There is no module {self.where!r}. Give the path of a file, as in train.py."
                )
        return self

    def load(self, arguments: Sequence[str] = ()) -> tuple[str, Any]:
        """NAME, and what the program calls so. It finds `arguments` in `sys.argv[1:]`."""
        sys.argv = [self.where, *arguments]
        module = self._module()
        for name in [self.name] if self.name else _DEFAULT_NAMES:
            if hasattr(module, name):
                return name, getattr(module, name)
        name = self.name or _DEFAULT_NAMES[0]
        raise click.UsageError(
            f"{self.where} has no {name!r}. Let it have {WANTED}, called {name}."
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
class Made:
    """What a program makes. Without a `train_spec` it can only be evaluated."""

    estimator: Any
    train_spec: TrainSpec | None
    eval_specs: list[EvalSpec]
    experiment: Any = None

    @classmethod
    def by(cls, program: Program, arguments: Sequence[str], settings: dict[str, Any]) -> Made:
        """Load the program and have it make what it makes."""
        from estimand.cli.settings import call

        name, found = program.load(arguments)
        what = f"{name} of {program.where}"
        if callable(found) and not hasattr(found, "train_spec"):  # an Experiment has one
            return cls.of(call(found, settings, what), what)
        if settings:
            raise click.UsageError(
                f"{what} is no function, so that there is nothing to set. Let a function make it."
            )
        return cls.of(found, what)

    @classmethod
    def of(cls, found: Any, what: str) -> Made:
        from estimand.core.spec import EvalSpec, TrainSpec
        from estimand.estimator.estimator import Estimator
        from estimand.estimator.lifecycle.experiment import Experiment

        if isinstance(found, Experiment):
            return cls(found.estimator, found.train_spec, [found.eval_spec], found)
        if isinstance(found, tuple) and len(found) in (2, 3) and isinstance(found[0], Estimator):
            estimator, *train, last = found
            evals = [last] if isinstance(last, EvalSpec) else list(last)
            fits = [isinstance(one, TrainSpec) for one in train]
            fits += [isinstance(one, EvalSpec) for one in evals]
            if evals and all(fits):
                return cls(estimator, train[0] if train else None, evals)
        raise click.UsageError(f"{what} gives {found!r}, but has to be {WANTED}.")


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


def _frames(found: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    return traceback.walk_tb(found)


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
