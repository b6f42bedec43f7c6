"""Where the input of a training call begins: at its start, or where the last call was stopped.

A saved position is one in a certain input. If the program reads another one by now (other data,
batches of another size, another order), that is told in one sentence, and training goes on from
where it makes sense: after as many rows as had been read, where these are the same rows and can be
counted; else at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distributed.lookahead import LookaheadFeeder
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.feeding.fingerprint import Fingerprint, batches_of
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("tensorflow")

_DIFFERENCES = {
    "data": "other data",
    "files": "files of other sizes",
    "structure": "other features or labels",
    "arrangement": "another order or other steps of its Dataset",
}


@dataclass(frozen=True)
class Start:
    """How to get to where training goes on.

    `saved` is the file of a position to go back to. If there is none, or it does not fit, so many
    `batches` are skipped by counting.
    """

    batches: int = 0
    saved: str | None = None
    # The position was noted without what its input is recognized by, or that cannot be seen.
    to_be_tried: bool = False

    @classmethod
    def at(cls, where: Mapping[str, Any] | None, given: ModelInput, latest: str | None) -> Start:
        """The place that `where`, saved with the checkpoint `latest`, stands for in this input."""
        if where is None or where.get("kind") == "start":
            return cls()
        companion = checkpoints.companion_prefix(latest) if latest else None
        saved = companion if where.get("kind") == "iterator" else None
        same_place = cls(int(where.get("batches", 0)), saved, to_be_tried=True)
        noted = where.get("pipeline")
        if not noted:
            return same_place
        now = Fingerprint.of(given.dataset)
        differences = now.differs_in(noted)
        if differences - {"seeds", "seen"}:
            return cls(_batches_into_another(where, given, differences))
        if "seeds" in differences and saved:
            _log.warning(
                "The seed of the input's shuffling has changed since %s was saved: the order that "
                "was begun goes on, so that no row is left out or comes twice.",
                latest,
            )
        return cls(same_place.batches, saved, to_be_tried=not now.seen)

    def feeder(
        self, given: ModelInput, again: Callable[[], ModelInput], replicas: int, stop: Any
    ) -> Feeder:
        """A feeder that stands there; `again` gives the input as if nobody had read from it."""
        if self.saved is not None:
            feeder = _from_the_start(given, replicas, stop)
            try:
                InputPosition.restore(feeder, self.saved, try_out=self.to_be_tried)
                feeder.batches = self.batches // replicas
                return feeder
            except InputError as error:
                _log.warning("%s Skipping %d batches by counting instead.", error, self.batches)
                # A Dataset that was iterated over, even in vain, shuffles anew the next time.
                given = again()
        feeder = _from_the_start(given, replicas, stop, skip=self.batches)
        if feeder.size is not None:
            feeder.size += self.batches // replicas
        feeder.batches = self.batches // replicas
        return feeder


def _batches_into_another(
    where: Mapping[str, Any], given: ModelInput, differences: set[str]
) -> int:
    """How many batches to skip in an input that is not the one of the position; says so."""
    read, before = where.get("rows"), where["pipeline"].get("batch_rows")
    batches = None if read is None or "data" in differences else batches_of(given.dataset)
    words = {name: words for name, words in _DIFFERENCES.items() if name in differences}
    if batches is not None and before is not None and batches.rows != before:
        words["arrangement"] = f"batches of {batches.rows} rows instead of {before}"
    what = ", ".join(words.values()) or "other batches"
    changed = f"input_fn gives another input than the interrupted run had ({what})"
    if batches is None or read is None:
        _log.warning("%s: training goes on at the start of the input.", changed)
        return 0
    skipped = batches.within(int(read))
    length = int(given.dataset.cardinality())
    if 0 <= length <= skipped:
        _log.warning(
            "%s, which has no more rows than the %d that had been read: training goes on at the "
            "start of the input.",
            changed,
            read,
        )
        return 0
    again = int(read) - batches.rows_of(skipped)
    _log.warning(
        "%s: %d rows had been read, so training goes on after its first %s%s.",
        changed,
        read,
        "batch" if skipped == 1 else f"{skipped} batches",
        f" ({again} of them come again)" if again > 0 else "",
    )
    return skipped


def _from_the_start(given: ModelInput, replicas: int, stop: Any, skip: int = 0) -> Feeder:
    dataset = given.dataset.skip(skip) if skip else given.dataset
    options: dict[str, Any] = {"keep_alive": given, "replicas": replicas}
    if stop is not None and dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY:
        return LookaheadFeeder(dataset, given.unpack, stop=stop, **options)
    return Feeder(dataset, given.unpack, **options)
