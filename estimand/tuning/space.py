"""What is searched: by name a list of values, a range as text, or a distribution of Optuna."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimand.core.errors import ConfigError, MissingExtraError

_RANGE = re.compile(r"(?P<log>log:)?(?P<low>[^.].*?)\.\.(?P<high>[^.].*)")
_PLAIN = (bool, int, float, str, type(None))


def optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("searching parameters", "tuning", "optuna") from error
    return optuna


@dataclass(frozen=True)
class Space:
    """Distributions by name; values that Optuna cannot keep (lists) stand there as their text."""

    distributions: dict[str, Any]
    meant: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Space:
        """
        >>> space = Space.of({"units": [[8], [16, 8]], "rate": "log:1e-4..0.1"})  # doctest: +SKIP
        >>> space.values({"units": "[16, 8]", "rate": 0.01})  # doctest: +SKIP
        {'units': [16, 8], 'rate': 0.01}
        """
        if not given:
            raise ConfigError(
                "There is nothing to search: name a parameter, as in "
                "{'learning_rate': 'log:1e-4..1e-1'}."
            )
        distributions, meant = {}, {}
        for name, value in given.items():
            value = parse(name, value) if isinstance(value, str) else value
            if isinstance(value, Sequence):
                meant[name] = {_kept(choice): choice for choice in value}
                value = optuna().distributions.CategoricalDistribution(list(meant[name]))
            elif not isinstance(value, optuna().distributions.BaseDistribution):
                raise _unknown(name, value)
            distributions[name] = value
        return cls(distributions, meant)

    def values(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a trial as they were meant."""
        return {name: self.meant.get(name, {}).get(value, value) for name, value in kept.items()}

    def grid(self) -> dict[str, list[Any]]:
        """All values of each parameter."""
        return {name: _all(name, distribution) for name, distribution in self.distributions.items()}

    def grid_size(self) -> int:
        return len(list(itertools.product(*self.grid().values())))


def parse(name: str, text: str) -> Any:
    """A range (`0.1..0.5`, `16..256`, `log:1e-4..1e-1`) or values (`16,32,64`, `relu,tanh`).

    >>> parse("units", "16,32"), parse("activation", "relu,tanh"), parse("layers", "[8],[8, 4]")
    ([16, 32], ['relu', 'tanh'], [[8], [8, 4]])
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        try:
            return json.loads(f"[{text}]")
        except ValueError:
            return [_value(part.strip()) for part in text.split(",")]
    low, high = _value(match["low"].strip()), _value(match["high"].strip())
    log = match["log"] is not None
    kinds = optuna().distributions
    try:
        if isinstance(low, int) and isinstance(high, int):
            return kinds.IntDistribution(low, high, log=log)
        return kinds.FloatDistribution(float(low), float(high), log=log)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The range {text!r} of {name!r} cannot be used: {error}") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _kept(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else json.dumps(value)


def _all(name: str, distribution: Any) -> list[Any]:
    kinds = optuna().distributions
    if isinstance(distribution, kinds.CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, kinds.IntDistribution) and not distribution.log:
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    raise ConfigError(
        f"A grid needs values that can be counted, and {name!r} is a range of numbers: list "
        "them, as in 0.001,0.01,0.1."
    )


def _unknown(name: str, value: Any) -> ConfigError:
    return ConfigError(
        f"{name!r} is to be searched in {value!r}; give a list of values, a range as text "
        "('log:1e-4..1e-1', '16..256'), or a distribution of optuna.distributions."
    )
