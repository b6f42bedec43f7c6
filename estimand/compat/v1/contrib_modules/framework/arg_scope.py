"""`tf.contrib.framework.arg_scope`: arguments that functions get unless the caller gives them.

Where tf_slim is installed, these are its scopes, so that those of contrib and of slim are one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from estimand.core.errors import ConfigError

Arguments = dict[str, dict[str, Any]]  # by the key of a function
_given: ContextVar[Arguments | None] = ContextVar("arg_scope", default=None)


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets `arg_scope` give arguments to a function.

    >>> @add_arg_scope
    ... def layer(units, bias=True):
    ...     return units, bias
    >>> with arg_scope([layer], bias=False):
    ...     layer(3), layer(3, bias=True)
    ((3, False), (3, True))
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        current = (_given.get() or {}).get(arg_scope_func_key(called), {})
        return function(*args, **{**current, **kwargs})

    called._key_op = f"{function.__module__}.{function.__qualname__}"  # type: ignore[attr-defined]
    return called


def arg_scope_func_key(function: Any) -> str:
    """By which a function is known; wrappers of one have the same."""
    return getattr(function, "_key_op", str(function))


def has_arg_scope(function: Any) -> bool:
    """Whether `arg_scope` can give a function arguments."""
    return hasattr(function, "_key_op")


@contextlib.contextmanager
def arg_scope(functions: Sequence[Any] | Arguments, **arguments: Any) -> Iterator[Arguments]:
    """Inside, the functions get these arguments; a scope can be entered again later."""
    if isinstance(functions, dict):
        if arguments:
            raise ConfigError(
                "arg_scope was given a scope to enter again and arguments. Enter it alone, and "
                "give further arguments by a list of functions inside."
            )
        scope = dict(functions)
    else:
        scope = _with(functions, arguments)
    token = _given.set(scope)
    try:
        yield scope
    finally:
        _given.reset(token)


def arg_scoped_arguments(function: Any) -> tuple[str, ...]:
    """The arguments of a function that have a default, which a scope can give."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    )


def current_arg_scope() -> Arguments:
    """All functions that are given arguments here, with them."""
    return dict(_given.get() or {})


def _with(functions: Sequence[Any], arguments: dict[str, Any]) -> Arguments:
    scope = current_arg_scope()
    for function in functions:
        if not has_arg_scope(function):
            raise ConfigError(
                f"{getattr(function, '__name__', function)} is not decorated with @add_arg_scope; "
                "arg_scope can give arguments to such functions only."
            )
        key = arg_scope_func_key(function)
        scope[key] = {**scope.get(key, {}), **arguments}
    return scope


if importlib.util.find_spec("tf_slim") is not None:
    with contextlib.suppress(ImportError):  # it needs what `estimand.install()` puts back
        _scopes = importlib.import_module("tf_slim.ops.arg_scope")
        globals().update({name: getattr(_scopes, name) for name in _scopes.__all__})
