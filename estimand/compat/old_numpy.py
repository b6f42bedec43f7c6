"""Names and arguments that NumPy has dropped, for a program that `estimand run` runs.

Names are there for the files of the program, and for those of libraries that use them without
looking: a library that knows several versions of NumPy finds the one that is installed. Old
arguments, which nobody can look for, are there for all. Arrays that estimators hand out are
numbers where they hold one: `float(row["predictions"])`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from estimand.compat import detection
from estimand.core import old_code

_log = logging.getLogger("estimand")

# What each stood for; of those, the NumPy at hand may still have some.
NAMES: dict[str, Callable[[], Any]] = {
    "Inf": lambda: np.inf,
    "Infinity": lambda: np.inf,
    "NINF": lambda: -np.inf,
    "NZERO": lambda: -0.0,
    "NaN": lambda: np.nan,
    "PINF": lambda: np.inf,
    "PZERO": lambda: 0.0,
    "alen": lambda: len,
    "alltrue": lambda: np.all,
    "asfarray": lambda: lambda a, dtype=np.float64: np.asarray(a, dtype),
    "asscalar": lambda: lambda a: a.item(),
    "bool": lambda: bool,
    "bool8": lambda: np.bool_,
    "cfloat": lambda: np.complex128,
    "complex": lambda: complex,
    "complex_": lambda: np.complex128,
    "cumproduct": lambda: np.cumprod,
    "find_common_type": lambda: lambda arrays, scalars: np.result_type(*arrays, *scalars),
    "float": lambda: float,
    "float_": lambda: np.float64,
    "in1d": lambda: lambda a, b, *args, **kwargs: np.isin(np.ravel(a), b, *args, **kwargs),
    "infty": lambda: np.inf,
    "int": lambda: int,
    "int0": lambda: np.intp,
    "issubclass_": lambda: lambda kind, base: isinstance(kind, type) and issubclass(kind, base),
    "long": lambda: int,
    "longcomplex": lambda: np.clongdouble,
    "longfloat": lambda: np.longdouble,
    "mat": lambda: np.asmatrix,
    "msort": lambda: lambda a: np.sort(a, axis=0),
    "object": lambda: object,
    "object0": lambda: np.object_,
    "product": lambda: np.prod,
    "rank": lambda: np.ndim,
    "round_": lambda: np.round,
    "row_stack": lambda: np.vstack,
    "singlecomplex": lambda: np.complex64,
    "sometrue": lambda: np.any,
    "str": lambda: str,
    "str0": lambda: np.str_,
    "string_": lambda: np.bytes_,
    "trapz": lambda: np.trapezoid,
    "uint0": lambda: np.uintp,
    "unicode": lambda: str,
    "unicode_": lambda: np.str_,
}
# Functions, and what their arguments are called now.
ARGUMENTS: dict[str, dict[str, str]] = {
    "nanpercentile": {"interpolation": "method"},
    "nanquantile": {"interpolation": "method"},
    "percentile": {"interpolation": "method"},
    "quantile": {"interpolation": "method"},
    "reshape": {"newshape": "shape"},
}


@contextlib.contextmanager
def put_back(path: str, directory: str | None = None) -> Iterator[None]:
    """For the program at `path` and the files of its directory: NumPy as they know it."""
    folder = (directory or os.path.dirname(os.path.abspath(path))) + os.sep
    told = _Told()
    before = {name: getattr(np, name) for name in ("__getattr__", *ARGUMENTS)}
    np.__getattr__ = _finder(before["__getattr__"], folder, told)  # type: ignore[method-assign]
    for name in ARGUMENTS:
        setattr(np, name, _translating(before[name], told))
    old_code.array_type = np.ndarray if _is_a_number(np.ones(1)) else _array_type(told)
    try:
        yield
    finally:
        old_code.array_type = np.ndarray
        for name, value in before.items():
            setattr(np, name, value)


class _Told:
    """Says once what was put back, at the first thing that is used."""

    def __init__(self) -> None:
        self._done = threading.Lock()

    def __call__(self, what: str) -> None:
        if self._done.acquire(blocking=False):
            frame = sys._getframe(2)
            _log.warning(
                "What NumPy %s has dropped is put back for this program, first %s (%s, line %d).",
                np.__version__,
                what,
                os.path.basename(frame.f_code.co_filename),
                frame.f_lineno,
            )


def _is_a_number(array: np.ndarray) -> bool:
    try:
        return float(array) == array[0]
    except TypeError:
        return False


def _array_type(told: _Told) -> type[np.ndarray]:
    class Array(np.ndarray):
        """Is a number if it holds one, in whatever shape."""

        def __float__(self) -> float:
            told("float(array)")
            return float(self.item())

        def __int__(self) -> int:
            told("int(array)")
            return int(self.item())

        def __repr__(self) -> str:
            return repr(self.view(np.ndarray))

    return Array


def _finder(before: Callable[[str], Any], folder: str, told: _Told) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        file = sys._getframe(1).f_code.co_filename if name in NAMES else ""
        if file and (file.startswith(folder) or name in _used_without_looking(file)):
            told(f"np.{name}")
            return NAMES[name]()
        return before(name)

    return __getattr__


@functools.cache
def _used_without_looking(path: str) -> frozenset[str]:
    """What a file uses of what NumPy has dropped, outside of `try` and `if hasattr(...)`."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return frozenset()
    aliases = numpy_aliases(tree)
    return frozenset(
        node.attr
        for node in detection.walk_what_is_not_tried(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
        and node.attr in NAMES
    )


def _translating(function: Callable[..., Any], told: _Told) -> Callable[..., Any]:
    changed = ARGUMENTS[function.__name__]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old, new in changed.items():
            if old in kwargs:
                told(f"np.{function.__name__}({old}=...)")
                kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)

    return call


def old_arguments(source: str) -> list[tuple[int, str, str]]:
    """Where a program gives functions of NumPy arguments that they no longer take.

    >>> old_arguments("import numpy as np\\nnp.quantile(x, 0.5, interpolation='lower')")
    [(2, 'quantile', 'interpolation')]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    aliases = numpy_aliases(tree)
    return [
        (node.lineno, node.func.attr, keyword.arg)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in aliases
        for keyword in node.keywords
        if keyword.arg in ARGUMENTS.get(node.func.attr, {}) and keyword.arg is not None
    ]


def old_names(source: str) -> list[tuple[int, str]]:
    """Where a program uses names that the NumPy at hand does not have, and which.

    >>> old_names("import numpy as np\\nx = np.zeros(3, np.float)")
    [(2, 'float')]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    aliases = numpy_aliases(tree)
    return sorted(
        (node.lineno, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
        and node.attr in NAMES
        and node.attr not in dir(np)
    )


def numpy_aliases(tree: ast.AST) -> set[str]:
    """What a program calls NumPy."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "numpy"
    }
