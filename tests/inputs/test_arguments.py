"""An input function is given those of mode, params, config and input_context it declares."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.call import bind_input_fn

OFFERED = {"mode": "train", "params": {"n": 2}, "config": "a config", "input_context": None}


def received(input_fn: Any, **changes: Any) -> Any:
    return bind_input_fn(input_fn, **{**OFFERED, **changes})()


def test_a_function_without_arguments_gets_none() -> None:
    assert received(lambda: "called") == "called"


def test_any_subset_is_passed_by_name() -> None:
    def input_fn(config: Any, mode: Any) -> Any:
        return config, mode

    assert received(input_fn) == ("a config", "train")


def test_keyword_only_arguments_are_passed() -> None:
    def input_fn(*, params: Any) -> Any:
        return params

    assert received(input_fn) == {"n": 2}


def test_double_star_gets_all_that_exist() -> None:
    assert set(received(lambda **kwargs: kwargs)) == {"mode", "params", "config"}
    context = tf.distribute.InputContext(2, 1, 2)
    assert received(lambda **kwargs: kwargs, input_context=context)["input_context"] is context


def test_a_default_is_overridden_by_what_is_offered() -> None:
    assert received(lambda params=None: params) == {"n": 2}


def test_input_context_is_none_when_required_and_absent() -> None:
    assert received(lambda input_context: input_context) is None


def test_input_context_keeps_its_default_when_absent() -> None:
    assert received(lambda input_context="mine": input_context) == "mine"


def test_values_bound_by_partial_are_kept() -> None:
    def input_fn(files: Any, params: Any, mode: Any) -> Any:
        return files, params, mode

    bound = functools.partial(functools.partial(input_fn, "a.csv"), params="mine")
    assert received(bound) == ("a.csv", "mine", "train")


def test_a_partial_of_double_star_keeps_the_rest_open() -> None:
    bound = functools.partial(lambda **kwargs: kwargs, mode="mine")
    assert received(bound) == {"mode": "mine", "params": {"n": 2}, "config": "a config"}


def test_bound_methods_and_callable_objects_are_called() -> None:
    class Reader:
        def read(self, params: Any) -> Any:
            return params

        def __call__(self, mode: Any) -> Any:
            return mode

    assert received(Reader().read) == {"n": 2}
    assert received(Reader()) == "train"


def test_a_decorator_with_double_star_passes_what_the_function_takes() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    assert received(logged(lambda params: params)) == {"n": 2}
    assert received(functools.partial(logged(lambda n, mode: (n, mode)), 3)) == (3, "train")


def test_a_decorator_without_arguments_is_called_without() -> None:
    def prepared(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper() -> Any:
            return function("prepared")

        return wrapper

    assert received(prepared(lambda params: params)) == "prepared"


def test_an_unknown_required_argument_is_named() -> None:
    with pytest.raises(InputError, match=r"requires the argument\(s\) files, .* params, config"):
        received(lambda files, params: None)


def test_something_that_is_not_callable_is_refused() -> None:
    with pytest.raises(InputError, match="input_fn must be callable, given: 3"):
        received(3)
