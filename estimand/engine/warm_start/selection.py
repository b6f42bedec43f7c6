"""Which variables of a model a warm start is about."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import WarmStartError
from estimand.engine.warm_start.settings import WarmStartSettings

MOST_NAMES = 20


@dataclass(frozen=True)
class Part:
    """A variable, or one part of a partitioned variable, and its place in the whole."""

    name: str
    variable: tf.Variable
    full_name: str
    full_shape: tuple[int, ...]
    offsets: tuple[int, ...]
    slice_spec: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.variable.shape.as_list())


def trainable_only(settings: WarmStartSettings) -> bool:
    """Whether optimizer slots, moving averages and `global_step` are left alone."""
    return settings.vars_to_warm_start is None or isinstance(settings.vars_to_warm_start, str)


def chosen_names(
    settings: WarmStartSettings, variables: Mapping[str, tf.Variable], trainable: set[str]
) -> list[str]:
    """The names of the variables that are asked for, in the model's order of each request."""
    wanted = settings.vars_to_warm_start
    if wanted is None or isinstance(wanted, str):
        return _matching(wanted or ".*", [n for n in variables if n in trainable])
    if not isinstance(wanted, (list, tuple)):
        raise WarmStartError(
            "`vars_to_warm_start must be a `list` or `str`.  Given type is "
            f"{type(wanted)}: {wanted!r}."
        )
    if all(isinstance(chosen, str) for chosen in wanted):
        names = (n for pattern in wanted for n in _matching(pattern, variables))
    elif all(hasattr(chosen, "name") for chosen in wanted):
        names = (n for chosen in wanted for n in _names_of(chosen, variables))
    else:
        raise WarmStartError(
            "If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given "
            f"types are {[type(chosen) for chosen in wanted]}."
        )
    return list(dict.fromkeys(names))


def _matching(pattern: str, names: Collection[str]) -> list[str]:
    """The names that the pattern matches at their start.

    Graphs write a variable's name with ":0" behind it, so that is what patterns are made for; one
    that fits nothing then, such as "kernel$", is tried on the names without it.
    """
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise WarmStartError(
            f"vars_to_warm_start holds {pattern!r}, which is not a regular expression: {error}."
        ) from error
    as_in_graphs = [n for n in names if regex.match(f"{n}:0")]
    return as_in_graphs or [n for n in names if regex.match(n)]


def _names_of(item: Any, variables: Mapping[str, tf.Variable]) -> list[str]:
    """The names under which the model has a variable, which may be a partitioned or Keras one."""
    inner = item if isinstance(item, tf.Variable) else getattr(item, "value", None)
    if same := [n for n, v in variables.items() if v is item or v is inner]:
        return same
    name = getattr(item, "path", None) or getattr(item, "name", None)
    if isinstance(name, str):
        name = name.split(":")[0]
        if same := [n for n, v in variables.items() if name in (n, _part(n, v).full_name)]:
            return same
    raise WarmStartError(
        f"vars_to_warm_start holds {item!r}, which is not a variable of the model. It has: "
        f"{some(variables)}."
    )


def grouped(variables: Mapping[str, tf.Variable], names: Collection[str]) -> dict[str, list[Part]]:
    """The parts of each variable, by its full name."""
    groups: dict[str, list[Part]] = {}
    for name in names:
        part = _part(name, variables[name])
        groups.setdefault(part.full_name, []).append(part)
    return groups


def _part(name: str, variable: tf.Variable) -> Part:
    sliced = tf_private.save_slice(variable)
    if sliced is None:
        shape = tuple(variable.shape.as_list()) if variable.shape.rank is not None else ()
        return Part(name, variable, name, shape, (0,) * len(shape))
    full_name, spec = sliced
    *sizes, slices = spec.split()  # such as "10 4 0,5:0,4": the whole, then start,length per axis
    offsets = tuple(int(part.split(",")[0]) for part in slices.split(":"))
    return Part(name, variable, full_name, tuple(map(int, sizes)), offsets, spec)


def check_all_used(settings: WarmStartSettings, chosen: Mapping[str, Any]) -> None:
    for where in ("var_name_to_prev_var_name", "var_name_to_vocab_info"):
        unused = [name for name in getattr(settings, where) if name not in chosen]
        if unused:
            raise WarmStartError(
                f"You provided the following variables in {where} that were not used: "
                f"{sorted(unused)}.  Perhaps you misspelled them?  Here is the list of viable "
                f"variable names: {list(chosen)}. They are those that vars_to_warm_start="
                f"{settings.vars_to_warm_start!r} matches"
                + (
                    " among the trainable variables; for others, give a list, such as ['.*']."
                    if trainable_only(settings)
                    else "."
                )
            )


def some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:MOST_NAMES])
    return shown + (f", … and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
