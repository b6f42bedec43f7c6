"""Which of the four arguments an input function wants, and calling it with just those."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError

_OFFERED = ("mode", "params", "config", "input_context")


def name_of(function: Callable[..., Any]) -> str:
    """What to call a function in a message.

    >>> name_of(functools.partial(max, 3))
    'max'
    """
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def bind_input_fn(input_fn: Callable[..., Any], **offered: Any) -> Callable[[], Any]:
    """`input_fn` with those of mode, params, config and input_context that it declares.

    >>> bind_input_fn(lambda params: params["n"], mode="train", params={"n": 3})()
    3
    """
    if not callable(input_fn):
        raise InputError(f"input_fn must be callable, given: {_what_to_pass(input_fn)}")
    parameters = _own_parameters(input_fn)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    chosen = input_fn.keywords if isinstance(input_fn, functools.partial) else {}
    arguments = {
        name: value
        for name, value in offered.items()
        if name not in chosen and _wanted(name, value, parameters.get(name), takes_any)
    }
    _check_nothing_missing(input_fn, parameters, arguments)
    return functools.partial(input_fn, **arguments)


def _what_to_pass(given: Any) -> str:
    if inspect.isgenerator(given):
        return (
            f"the generator of {given.__name__}, which can be gone through once. Pass the function "
            "that makes it, without ()."
        )
    if type(given).__name__ == "DataFrame":
        names = ", ".join(repr(name) for name in list(given.columns)[:6])
        return (
            f"a DataFrame with the columns {names}. Write est.inputs.table_input_fn(table, "
            "label_name=...), which makes an input_fn of it."
        )
    if isinstance(given, tf.data.Dataset):
        return (
            f"a Dataset ({type(given).__name__}). Pass the function that makes it, without (); or "
            "write one: `lambda: make_dataset(...)`."
        )
    return f"{given!r}. Pass the function itself, or wrap a value: `lambda: value`."


def takes_input_context(input_fn: Callable[..., Any]) -> bool:
    """Whether an input function is told which part of the input is to be its own.

    >>> takes_input_context(lambda input_context: None)
    True
    """
    return "input_context" in _own_parameters(input_fn)


def _wanted(name: str, value: Any, parameter: inspect.Parameter | None, takes_any: bool) -> bool:
    if parameter is None:
        # Without a distribution strategy there is no input context to speak of.
        return takes_any and not (name == "input_context" and value is None)
    if name == "input_context" and value is None:
        return parameter.default is parameter.empty
    return True


def _own_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters still open, by name."""
    if isinstance(function, functools.partial):
        # `signature` shows keywords bound by a partial as open with a default; passing one
        # again would silently replace the value the user chose.
        inner = _own_parameters(function.func)
        taken = inspect.Signature(list(inner.values())).bind_partial(
            *function.args, **function.keywords
        )
        return {
            n: p for n, p in inner.items() if n not in taken.arguments or p.kind is p.VAR_KEYWORD
        }
    try:
        parameters = dict(inspect.signature(function, follow_wrapped=False).parameters)
    except ValueError:  # some builtins have no signature: call them with nothing
        return {}
    wrapped = getattr(function, "__wrapped__", None)
    passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # A decorator's `**kwargs` only hands on what the decorated function takes.
    return _own_parameters(wrapped) if wrapped is not None and passes_on else parameters


def _check_nothing_missing(
    input_fn: Callable[..., Any],
    parameters: dict[str, inspect.Parameter],
    arguments: dict[str, Any],
) -> None:
    required = [
        name
        for name, p in parameters.items()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and name not in arguments
    ]
    if required:
        raise InputError(
            f"input_fn {name_of(input_fn)} requires the argument(s) {', '.join(required)}, which "
            f"nobody passes: an input_fn may declare {', '.join(_OFFERED)}. Bind the rest: "
            f"`functools.partial(input_fn, {required[0]}=...)`."
        )
