"""What Python 2 had among its built-in names, for the files of an old program.

TensorFlow 1 ran on Python 2, and many programs never left it: `layers = map(int, text.split(","))`
was a list, which such a program counts, indexes and goes through again and again. Python 3 gives
an iterator: it fails at `len(layers)`, or goes through nothing the second time.
"""

from __future__ import annotations

import builtins
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Sized
from types import ModuleType
from typing import Any


class Listed(list[Any]):
    """A list, as in Python 2, that `next` also takes from, as in Python 3."""

    def __next__(self) -> Any:
        if not self:
            raise StopIteration
        return self.pop(0)


def _listed(function: Callable[..., Iterable[Any]], first_iterable: int) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        """A list where the length is known beforehand: others may have no end, and stay lazy."""
        made = function(*args, **kwargs)
        finite = all(isinstance(given, Sized) for given in args[first_iterable:])
        return Listed(made) if finite else made

    call.__name__ = function.__name__
    return call


def _reload(module: ModuleType) -> ModuleType:
    if module is not sys:
        return importlib.reload(module)
    # `reload(sys)` was how programs came by this function; what they set is the default today.
    sys.setdefaultencoding = lambda name: None  # type: ignore[attr-defined]
    return sys


NAMES: dict[str, Any] = {
    "basestring": (str, bytes),
    "filter": _listed(builtins.filter, 1),
    "long": int,
    "map": _listed(builtins.map, 1),
    "raw_input": builtins.input,
    "reload": _reload,
    "unichr": chr,
    "unicode": str,
    "xrange": range,
    "zip": _listed(builtins.zip, 0),
}


# Modules that have other names today, and names that modules have lost.
_MODULES = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "StringIO": "io",
    "cPickle": "pickle",
    "cStringIO": "io",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}
_LOST: dict[str, dict[str, Any]] = {
    "itertools": {
        "ifilter": builtins.filter,
        "imap": builtins.map,
        "izip": builtins.zip,
        "izip_longest": itertools.zip_longest,
    },
}


def module(name: str) -> ModuleType | None:
    """A module as Python 2 had it; None if it is no other today.

    >>> module("cPickle").__name__, list(module("itertools").izip("ab", "cd"))
    ('pickle', [('a', 'c'), ('b', 'd')])
    """
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _LOST:
        return None
    with_more = ModuleType(name)
    with_more.__dict__.update(vars(importlib.import_module(name)) | _LOST[name])
    return with_more


def written_today(name: str) -> str | None:
    """What a module, or a name of one, is called today; None if it is called as it was.

    >>> written_today("cPickle"), written_today("itertools.izip"), written_today("os")
    ('pickle', 'zip', None)
    """
    if name in _MODULES:
        return _MODULES[name]
    owner, _, last = name.partition(".")
    found = _LOST.get(owner, {}).get(last)
    return None if found is None else found.__name__


def give_to(names: dict[str, Any]) -> None:
    """Put them among the global names of a file; what it has made itself stays.

    >>> names = {"unicode": bytes}
    >>> give_to(names)
    >>> names["map"](int, "1,2".split(","))[1], names["unicode"]
    (2, <class 'bytes'>)
    """
    for name, value in NAMES.items():
        names.setdefault(name, value)
