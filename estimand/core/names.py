"""Names that are not there: which there are, and which one was probably meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from estimand.core.errors import UnknownKeyError
from estimand.core.interpreter.tracebacks import raised_by_user, users_line

F = TypeVar("F", bound=Callable[..., Any])


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """A question to put at the end of a message; empty where nothing is similar.

    >>> did_you_mean("acuracy", ["accuracy", "loss"])
    " Did you mean 'accuracy'?"
    >>> did_you_mean("x", ["loss"])
    ''
    """
    by_text = {str(name).lower(): name for name in known}
    close = difflib.get_close_matches(str(name).lower(), by_text, 1, cutoff=0.6)
    return f" Did you mean {by_text[close[0]]!r}?" if close else ""


def naming_unknown(function: F) -> F:
    """`function`, which says of an argument that it does not have which one may be meant.

    >>> naming_unknown(lambda age: age)(aeg=3)
    Traceback (most recent call last):
        ...
    TypeError: <lambda>() got an unexpected keyword argument 'aeg'. Did you mean 'age'?
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                there = [name for name in known if name != "self"]
                meant = did_you_mean(name, there) or f" There are: {listed(there)}."
                raise TypeError(
                    f"{function.__qualname__}() got an unexpected keyword argument {name!r}.{meant}"
                )
        return function(*args, **kwargs)

    return cast("F", called)


class KnownNames(dict[str, Any]):
    """A dict that says what it has when it is asked for something else.

    >>> KnownNames("signature", {"predict": 1})["predct"]
    Traceback (most recent call last):
        ...
    estimand.core.errors.UnknownKeyError: There is no signature 'predct'. There are: 'predict'. ...
    """

    def __init__(self, what: str, items: Mapping[str, Any]) -> None:
        super().__init__(items)
        self._what = what

    def __missing__(self, key: Any) -> Any:
        raise UnknownKeyError(
            f"There is no {self._what} {key!r}. There are: {listed(sorted(self))}."
            f"{did_you_mean(key, self)}"
        )


def listed(known: Iterable[Any]) -> str:
    """Names one after another.

    >>> listed(["a", "b"]), listed([])
    ("'a', 'b'", 'nothing')
    """
    return ", ".join(repr(name) for name in known) or "nothing"


def missing_key(error: Exception, given: Mapping[str, Any]) -> UnknownKeyError | None:
    """What to say of a KeyError by the user's own line; `given` are the dicts it may be about."""
    line = users_line(error)
    if not isinstance(error, KeyError) or len(error.args) != 1 or not raised_by_user(error):
        return None
    key = error.args[0]
    lacking = {
        what: mapping
        for what, mapping in given.items()
        if isinstance(mapping, Mapping) and key not in mapping
    }
    if not lacking or line is None:
        return None
    # Where the line speaks of one of them by name, that is the one; else those with anything in.
    named = {what: mapping for what, mapping in lacking.items() if what in line.text}
    filled = {what: mapping for what, mapping in lacking.items() if mapping}
    lacking = named or filled or lacking
    there = "; ".join(f"{what}s: {listed(mapping)}" for what, mapping in lacking.items())
    known = [name for mapping in lacking.values() for name in mapping]
    return UnknownKeyError(
        f"{line}: there is no {' or '.join(lacking)} {key!r}. There are {there}."
        f"{did_you_mean(key, known)}"
    )
