"""Which checkpoints to keep: a decision about a list, with no files and no clock of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Saved:
    """A checkpoint on the list of those that may be removed one day."""

    path: str
    time: float


@dataclass(frozen=True)
class Decision:
    """What becomes of the list: `listed` stays on it, `remove` is to be deleted.

    What is in neither is kept forever: it leaves the list, and its files stay.
    """

    listed: tuple[Saved, ...]
    remove: tuple[Saved, ...]
    last_preserved: float


@dataclass(frozen=True)
class KeepPolicy:
    """The newest `keep_max`, and forever one every `keep_every_n_hours`, as `tf.train.Saver`.

    `keep_max` of None or 0 keeps all. The hours count from the last one kept forever, at first
    from the start of the training.

    >>> saved = [Saved("a", 0.0), Saved("b", 7300.0), Saved("c", 7400.0)]
    >>> decision = KeepPolicy(keep_max=1, keep_every_n_hours=2).decide(saved, last_preserved=0.0)
    >>> [s.path for s in decision.remove], [s.path for s in decision.listed]
    (['a'], ['c'])
    """

    keep_max: int | None = 5
    keep_every_n_hours: float = 10000.0

    def decide(
        self, saved: Sequence[Saved], last_preserved: float, protected: Collection[str] = ()
    ) -> Decision:
        """`saved` is oldest first; a `protected` one stays listed, to be judged another time."""
        surplus = len(saved) - self.keep_max if self.keep_max else 0
        listed: list[Saved] = []
        remove: list[Saved] = []
        for position, checkpoint in enumerate(saved):
            if position >= surplus or checkpoint.path in protected:
                listed.append(checkpoint)
            elif checkpoint.time > last_preserved + self.keep_every_n_hours * SECONDS_PER_HOUR:
                last_preserved = checkpoint.time
            else:
                remove.append(checkpoint)
        return Decision(tuple(listed), tuple(remove), last_preserved)
