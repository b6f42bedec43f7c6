"""Checking and calling a user's model function."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from estimand.core.errors import ModelFnError
from estimand.estimator.model_fn_errors import explained

_log = logging.getLogger("tensorflow")

_KNOWN = ("features", "labels", "mode", "params", "config")


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names a caller may pass by keyword; sees through partial and callable objects."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= set(function.keywords)
        given = len(function.args)
        function = function.func
        if given:
            bound |= set(list(inspect.signature(function).parameters)[:given])
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in parameters if p.kind in kinds and p.name not in bound)


def takes_any_keyword(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def check_model_fn(model_fn: Callable[..., Any], params: Any) -> None:
    """Raise if `model_fn` cannot be called the way an Estimator calls it."""
    if not callable(model_fn):
        raise ModelFnError(f"model_fn must be callable, given: {model_fn!r}.")
    names = argument_names(model_fn)
    if "features" not in names and not takes_any_keyword(model_fn):
        raise ModelFnError(
            f"model_fn ({model_fn}) must include features argument. "
            f"It takes {list(names)}; write def model_fn(features, labels, mode)."
        )
    if params is not None and "params" not in names and not takes_any_keyword(model_fn):
        raise ModelFnError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator. Add a `params` argument to model_fn, or drop params."
        )
    if params is None and "params" in names:
        _log.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to "
            "Estimator.",
            model_fn,
        )
    unknown = sorted(set(names) - {*_KNOWN, "self"} - _with_default(model_fn))
    if unknown:
        raise ModelFnError(
            f"model_fn ({model_fn}) has following not expected args: {unknown}. "
            f"An Estimator passes any of {list(_KNOWN)}; bind others with functools.partial, or "
            "pass them in params."
        )


def _with_default(function: Callable[..., Any]) -> set[str]:
    """Extra arguments that nobody has to pass are harmless only if bound by partial."""
    return set(function.keywords) if isinstance(function, functools.partial) else set()


def call_model_fn(
    model_fn: Callable[..., Any], features: Any, labels: Any, mode: str, params: Any, config: Any
) -> Any:
    """Call `model_fn` with those of the five arguments it declares."""
    names = argument_names(model_fn)
    anything = takes_any_keyword(model_fn)
    if labels is not None and "labels" not in names and not anything:
        raise ModelFnError(
            "model_fn does not take labels, but input_fn returns labels. Add a `labels` argument "
            "to model_fn, or let input_fn return features only."
        )
    available = {"labels": labels, "mode": mode, "params": params, "config": config}
    kwargs = {k: v for k, v in available.items() if k in names or anything}
    with explained(features, labels, mode, params):
        return model_fn(features=features, **kwargs)
