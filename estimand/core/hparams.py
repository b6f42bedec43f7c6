"""Hyperparameters as an object: `params=HParams(learning_rate=0.1)`.

The class of the same name left TensorFlow together with `tf.contrib`; this one answers to the
same calls.
"""

from __future__ import annotations

import contextlib
import json
import numbers
import re
from collections.abc import Iterator, Mapping
from typing import Any

from estimand.core.errors import ConfigError

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w.]*)\s*"
    r"(?:\[\s*(?P<index>\d+)\s*\]\s*)?"
    r"=\s*"
    r"(?:\[(?P<items>[^\]]*)\]|(?P<value>[^,\[\]]*))"
    r"\s*(?:,|$)"
)
_TRUE_WORDS = ("true", "1")
_FALSE_WORDS = ("false", "0")


class _UnknownHParamError(ConfigError, KeyError):
    """Setting an unknown name was a KeyError, parsing one a ValueError; this is both."""

    __str__ = Exception.__str__  # KeyError would show the repr of the sentence.


class HParams:
    """Named values with a fixed type each, readable as attributes.

    The type of a hyperparameter is that of its first value; a list is a hyperparameter with
    several values of one type. `set_hparam`, `parse`, `override_from_dict` and `parse_json`
    convert to that type and refuse what does not fit. Plain attribute assignment does not check.

    >>> hparams = HParams(learning_rate=0.1, units=[64, 32], name="net")
    >>> hparams.parse("learning_rate=0.5,units=[8,4]")
    HParams(learning_rate=0.5, units=[8, 4], name='net')
    >>> hparams.learning_rate, "units" in hparams
    (0.5, True)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a new hyperparameter; its type is taken from `value`."""
        if name in self._hparam_types or hasattr(type(self), name) or name == "_hparam_types":
            raise ConfigError(
                f"Hyperparameter name is reserved: {name}. It is already a hyperparameter or a "
                f"method of HParams; choose another name, or use set_hparam to change a value."
            )
        if isinstance(value, list | tuple):
            if not value:
                raise ConfigError(
                    f"Multi-valued hyperparameters cannot be empty: {name}. "
                    "The type of its elements is taken from the first one."
                )
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes an existing hyperparameter, converting `value` to its type."""
        kind, is_list = self._type_of(name)
        if isinstance(value, list | tuple):
            if not is_list:
                raise ConfigError(
                    f"Must not pass a list for single-valued parameter: {name}. Given: {value!r}."
                )
            setattr(self, name, [_convert(name, kind, item) for item in value])
        else:
            if is_list:
                raise ConfigError(
                    f"Must pass a list for multi-valued parameter: {name}. Given: {value!r}."
                )
            setattr(self, name, _convert(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter if it exists."""
        if self._hparam_types.pop(name, None):
            delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Overrides values from text such as `"a=1,b=[1,2],c=x,b[1]=3"`; returns self."""
        # Collected first, so that text with a mistake in it changes nothing.
        changes: dict[str, Any] = {}
        indexed: list[tuple[str, int, Any]] = []
        for match in _assignments(values):
            name, text = match["name"], match["value"]
            kind, is_list = self._type_of(name)
            if match["index"] is not None:
                if not is_list:
                    raise ConfigError(f"Cannot index single-valued parameter {name} in {values!r}.")
                indexed.append((name, int(match["index"]), _parse_word(name, kind, text, values)))
                continue
            if name in changes:
                raise ConfigError(f"Multiple assignments to variable {name!r} in {values!r}.")
            if match["items"] is not None:
                words = match["items"].replace(",", " ").split()
                changes[name] = [_parse_word(name, kind, word, values) for word in words]
            else:
                changes[name] = _parse_word(name, kind, text, values)
        for name, index, value in indexed:
            items = list(changes.get(name, getattr(self, name)))
            if index >= len(items):
                raise ConfigError(
                    f"{name}[{index}] does not exist: {name} has {len(items)} values."
                )
            items[index] = value
            changes[name] = items
        return self.override_from_dict(changes)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets every hyperparameter named in `values_dict`; returns self."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def to_json(
        self,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """The values as a JSON object; functions, which have no JSON form, are left out."""
        plain = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Overrides values from a JSON object; returns self."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Names and current values."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` if there is no such hyperparameter."""
        return getattr(self, key) if key in self._hparam_types else default

    def __contains__(self, key: object) -> bool:
        return key in self._hparam_types

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.values().items())
        return f"{type(self).__name__}({arguments})"

    def _type_of(self, name: str) -> tuple[type, bool]:
        try:
            return self._hparam_types[name]
        except KeyError:
            raise _UnknownHParamError(
                f"Unknown hyperparameter type for {name}. "
                f"Known hyperparameters: {sorted(self._hparam_types)}. "
                f"Use add_hparam({name!r}, value) to add it."
            ) from None


def _assignments(values: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(values):
        match = _ASSIGNMENT.match(values, position)
        if not match:
            raise ConfigError(
                f"Malformed hyperparameter value: {values[position:]!r} in {values!r}. "
                "Expected name=value or name=[value,value], separated by commas."
            )
        yield match
        position = match.end()


def _parse_word(name: str, kind: Any, text: str | None, values: str) -> Any:
    text = (text or "").strip()
    try:
        if issubclass(kind, bool):
            return _parse_bool(text)
        return text if kind is type(None) else kind(text)
    except (TypeError, ValueError):
        raise ConfigError(
            f"Could not parse hparam {name!r} of type {kind.__name__!r} with value {text!r} "
            f"in {values!r}."
        ) from None


def _parse_bool(text: str) -> bool:
    word = text.lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(text)


def _convert(name: str, kind: type, value: Any) -> Any:
    """`value` as `kind`, or an error where the conversion would change its meaning."""
    if kind is type(None) or type(value) is kind:
        return value  # A first value of None says nothing about the type.
    keeps_meaning = (
        issubclass(kind, bool) == isinstance(value, bool)
        and issubclass(kind, str) == isinstance(value, str)
        and (not issubclass(kind, numbers.Integral) or isinstance(value, numbers.Integral))
        and (not issubclass(kind, numbers.Number) or isinstance(value, numbers.Number))
    )
    if keeps_meaning:
        with contextlib.suppress(TypeError, ValueError):
            return value if isinstance(value, kind) else kind(value)
    raise ConfigError(
        f"Could not cast hparam {name!r} of type {kind.__name__!r} from value {value!r} "
        f"of type {type(value).__name__!r}."
    )
