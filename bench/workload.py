"""The words in which a workload is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turns import Turns

RATE = "rate"
BEFORE = ", before"  # ends the name of a contestant that runs another revision


@dataclass(frozen=True)
class Contestant:
    """One way to do the work, in the environment it needs."""

    name: str
    environment: str
    run: Callable[[Turns], None]
    variables: Mapping[str, str] = field(default_factory=dict)  # of the process's environment
    in_quick: bool = True  # whether it takes part in --quick runs


@dataclass(frozen=True)
class Measure:
    """A quantity that contestants report, and how two of them are compared.

    - `rate`: more is better; the ratio says how many times as fast.
    - `seconds`: less is better; the ratio says how many times as fast.
    - `share`: less is better; the ratio is the time itself as a share of the other's.
    """

    key: str = RATE
    title: str = ""
    unit: str = "steps/s"
    kind: Literal["rate", "seconds", "share"] = "rate"

    def ratio(self, own: float, other: float) -> float:
        if self.kind == "seconds":
            own, other = other, own
        return own / other if other else float("inf")

    def best(self, values: dict[str, float]) -> str:
        """The name with the best value."""
        choose = max if self.kind == "rate" else min
        return choose(values, key=values.__getitem__)


@dataclass(frozen=True)
class Target:
    """What is aimed at: reported beside the measured ratio, never enforced."""

    contestant: str
    against: Sequence[str]  # the best of these
    at_least: float | None = None
    at_most: float | None = None
    measure: str = RATE

    def met_by(self, ratio: float) -> bool:
        return (self.at_least is None or ratio >= self.at_least) and (
            self.at_most is None or ratio <= self.at_most
        )

    @property
    def limit(self) -> str:
        return f"≥ {self.at_least:g}x" if self.at_least is not None else f"≤ {self.at_most:.0%}"


@dataclass(frozen=True)
class Workload:
    """The work, who does it, and with whom they are compared."""

    title: str
    contestants: Sequence[Contestant]
    baseline: Sequence[str]  # the first of these that has a value
    measures: Sequence[Measure] = (Measure(),)
    targets: Sequence[Target] = ()
    rounds: int = 15
    quick_rounds: int = 3
    # A new process for every turn, for work that a process can do only once.
    fresh_process: bool = False

    def measure(self, key: str) -> Measure:
        return next(m for m in self.measures if m.key == key)

    def contestant(self, name: str) -> Contestant:
        return next(c for c in self.contestants if c.name == name.removesuffix(BEFORE))
