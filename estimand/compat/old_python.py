"""Names that Python's own library has dropped, and that code of the years of tf.estimator uses.

Unlike those of NumPy they are put back for everybody: each does what its successor does, so that
a library which looks whether it is there works with either.
"""

from __future__ import annotations

import base64
import collections
import collections.abc
import errno
import importlib
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
_ABSTRACT = (
    "Awaitable", "ByteString", "Callable", "Collection", "Container", "Generator", "Hashable",
    "ItemsView", "Iterable", "Iterator", "KeysView", "Mapping", "MappingView", "MutableMapping",
    "MutableSequence", "MutableSet", "Reversible", "Sequence", "Set", "Sized", "ValuesView",
)  # fmt: skip


def getargspec(function: Callable[..., Any]) -> ArgSpec:
    """The arguments of a function, as `inspect.getargspec` gave them until Python 3.10.

    >>> getargspec(lambda x, y=1, **more: x)
    ArgSpec(args=['x', 'y'], varargs=None, keywords='more', defaults=(1,))
    """
    whole = inspect.getfullargspec(function)
    if whole.kwonlyargs or whole.annotations:
        raise ValueError(
            f"getargspec was given {function!r}, which has keyword-only parameters or annotations. "
            "Use inspect.getfullargspec or inspect.signature, which can tell of them."
        )
    return ArgSpec(whole.args, whole.varargs, whole.varkw, whole.defaults)


# Module, or a class of one, and name -> what stands for it, and what to write today.
_NAMES: dict[tuple[str, str], tuple[Any, str]] = {
    ("inspect", "getargspec"): (getargspec, "inspect.getfullargspec"),
    ("time", "clock"): (time.perf_counter, "time.perf_counter"),
    ("fractions", "gcd"): (math.gcd, "math.gcd"),
    ("base64", "decodestring"): (base64.decodebytes, "base64.decodebytes"),
    ("base64", "encodestring"): (base64.encodebytes, "base64.encodebytes"),
    ("os", "errno"): (errno, "errno"),
    ("threading.Thread", "isAlive"): (threading.Thread.is_alive, "threading.Thread.is_alive"),
} | {
    ("collections", name): (getattr(collections.abc, name), f"collections.abc.{name}")
    for name in _ABSTRACT
    if hasattr(collections.abc, name)
}


def missing() -> Iterator[tuple[Any, str, Any]]:
    """The names that the Python at hand lacks: module or class, name and what to put there."""
    for (module_name, name), (value, _) in _NAMES.items():
        module_name, _, class_name = module_name.partition(".")
        owner: Any = importlib.import_module(module_name)
        owner = getattr(owner, class_name) if class_name else owner
        if not hasattr(owner, name):
            yield owner, name, value


def written_today(path: str) -> str | None:
    """What to write for a name that Python has dropped; None for all others.

    >>> written_today("inspect.getargspec"), written_today("collections.Mapping")
    ('inspect.getfullargspec', 'collections.abc.Mapping')
    """
    module, _, name = path.rpartition(".")
    known = _NAMES.get((module, name))
    return None if known is None else known[1]
