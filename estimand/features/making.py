"""What a column is made of: a complaint when it is made, not where it is first used.

The sentences begin as TensorFlow's do, where it has any.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from estimand.core.errors import FeatureColumnError
from estimand.core.tf_private import feature_columns as fc

_NUMERIC = (fc.NumericColumn, fc.V1NumericColumn)
Check = Callable[[str, Mapping[str, Any]], None]

_NOT_CATEGORICAL = "Unsupported input type. Input must be a CategoricalColumn."
_NO_KEY = (
    "Unsupported key type. All keys must be either string, or categorical column except "
    "HashedCategoricalColumn."
)


def checked(make: Callable[..., Any], check: Check, name: str = "") -> Callable[..., Any]:
    """`make`, which looks at its arguments first; `name`, if users call it by another."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def looked_at(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            given = {}  # `make` says what is wrong with them
        if given:
            check(name or make.__name__, given)
        return make(*args, **kwargs)

    return looked_at


def of_categories(name: str, given: Mapping[str, Any]) -> None:
    """For constructors that take a categorical column."""
    _categorical(name, given["categorical_column"])


def of_many_categories(name: str, given: Mapping[str, Any]) -> None:
    """For constructors that take a list of categorical columns."""
    columns = given["categorical_columns"]
    for column in columns if isinstance(columns, list | tuple) else ():
        _categorical(name, column)


def of_numbers(name: str, given: Mapping[str, Any]) -> None:
    """For bucketized_column."""
    source, boundaries = given["source_column"], given["boundaries"]
    if isinstance(source, (str, *fc.AnyColumn)) and not isinstance(source, _NUMERIC):
        cure = "Only numbers can be put into buckets; words are categories as they are."
        if isinstance(source, str):
            cure = f"Write {name}(numeric_column({source!r}), {boundaries!r})."
        raise FeatureColumnError(
            "source_column must be a column generated with numeric_column(). Given: "
            f"{described(source)}. {cure}"
        )
    if not isinstance(boundaries, list | tuple) or not _increase(boundaries):
        raise FeatureColumnError(
            f"boundaries must be a sorted list. Given for the column {source.name!r}: "
            f"{boundaries!r}. {_sorted_text(boundaries)}"
        )


def of_keys(name: str, given: Mapping[str, Any]) -> None:
    """For crossed_column."""
    keys = given["keys"]
    if isinstance(keys, str):
        raise FeatureColumnError(
            f"keys must be a list with length > 1. Given: {keys!r}. Write {name}([{keys!r}, "
            "'another feature'], hash_bucket_size)."
        )
    for key in keys if isinstance(keys, Iterable) else ():
        if isinstance(key, fc.HashedCategoricalColumn):
            raise FeatureColumnError(
                f"{_NO_KEY} Given: {described(key)}. A cross hashes by itself: give the name "
                f"{key.key!r} in its place."
            )
        if isinstance(key, fc.AnyColumn) and not isinstance(key, fc.AnyCategoricalColumn):
            raise FeatureColumnError(f"{_NO_KEY} Given: {described(key)}. {_cure('', key)}")


def described(column: Any) -> str:
    """A column by its kind and name, or whatever was given instead.

    >>> described("plan")
    "the string 'plan'"
    """
    if isinstance(column, str):
        return f"the string {column!r}"
    if isinstance(column, fc.AnyColumn):
        return f"the {type(column).__name__.lstrip('_')} {column.name!r}"
    return repr(column)


def _categorical(name: str, column: Any) -> None:
    wrong = isinstance(column, fc.AnyColumn) and not isinstance(column, fc.AnyCategoricalColumn)
    if wrong or isinstance(column, str):
        raise FeatureColumnError(
            f"{_NOT_CATEGORICAL} Given to {name}: {described(column)}. {_cure(name, column)}"
        )


def _cure(name: str, column: Any) -> str:
    if isinstance(column, str):
        inner = f"categorical_column_with_vocabulary_list({column!r}, [...])"
        more = "" if name == "indicator_column" else ", ..."
        made = f"[{inner}]" if name.startswith("shared") else inner
        return f"Write {name}({made}{more}), with the words there are."
    if isinstance(column, fc.NumericColumn):
        alone = f"A model takes numbers without {name}; or put" if name else "Put"
        return (
            f"{alone} them into buckets first: bucketized_column(numeric_column({column.key!r}), "
            "boundaries=[...])."
        )
    return "Give a column made with one of categorical_column_with_*, or bucketized_column."


def _increase(boundaries: Any) -> bool:
    return all(a < b for a, b in itertools.pairwise(boundaries))


def _sorted_text(boundaries: Any) -> str:
    if isinstance(boundaries, list | tuple):
        return f"Each has to be larger than the one before: {sorted(set(boundaries))!r}."
    return "Write numbers in a list, each larger than the one before: boundaries=[1, 10, 100]."
