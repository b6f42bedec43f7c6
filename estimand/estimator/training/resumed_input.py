"""Where the input of a training call begins: at its start, or where the last call was stopped.

A saved position is one in a certain input. If the program reads another one by now (other data,
batches of another size, another order), that is told in one sentence, and training goes on from
where it makes sense: after as many rows as had been read, where these are the same rows and can be
counted; else at the start.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from estimand.core import tf_private
from estimand.core.errors import InputError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.feeding.fingerprint import Fingerprint, batches_of
from estimand.engine.feeding.resident import ResidentFeeder, open_feeder, rows_of
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("tensorflow")

_DIFFERENCES = {
    "data": "other data",
    "files": "files of other sizes",
    "structure": "other features or labels",
    "arrangement": "another order or other steps of its Dataset",
}


@dataclass(frozen=True)
class InputPlace:
    """How to get to where training goes on.

    `saved` is the file of a position to go back to, of a feeder of this `kind`. If there is none,
    or it does not fit, so many `batches` are skipped by counting.
    """

    batches: int = 0
    saved: str | None = None
    kind: str = Feeder.kind
    # The position was noted without what its input is recognized by, or that cannot be seen.
    to_be_tried: bool = False

    @classmethod
    def at(
        cls, where: Mapping[str, Any] | None, given: ModelInput, latest: str | None
    ) -> InputPlace:
        """The place that `where`, saved with the checkpoint `latest`, stands for in this input."""
        if where is None or where.get("kind") == "start":
            return cls()
        companion = checkpoints.companion_prefix(latest) if latest else None
        kind = where.get("kind")
        saved = companion if kind in (Feeder.kind, ResidentFeeder.kind) else None
        same_place = cls(int(where.get("batches", 0)), saved, kind or Feeder.kind, to_be_tried=True)
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
        return dataclasses.replace(same_place, to_be_tried=not now.seen)

    def feeder(
        self,
        given: ModelInput,
        again: Callable[[], ModelInput],
        distribution: Distribution,
        stop: Stop,
    ) -> Feeder:
        """A feeder that stands there; `again` gives the input as if nobody had read from it."""
        if self.saved is not None:
            # A position of batches goes on with batches, one of rows with rows.
            by_rows = self.kind == ResidentFeeder.kind
            feeder = _from_the_start(given, distribution, stop, by_rows=by_rows)
            try:
                if feeder.kind != self.kind:
                    raise InputError("The input lay in memory when its position was saved.")
                at = self.batches // distribution.replicas
                InputPosition.restore(feeder, self.saved, at, try_out=self.to_be_tried)
                return feeder
            except InputError as error:
                _log.warning("%s Skipping %d batches by counting instead.", error, self.batches)
                # A Dataset that was iterated over, even in vain, shuffles anew the next time.
                given = again()
        return _by_counting(given, distribution, stop, self.batches)


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


def _by_counting(given: ModelInput, distribution: Distribution, stop: Stop, batches: int) -> Feeder:
    if batches == 0:
        return _from_the_start(given, distribution, stop)
    at = batches // distribution.replicas
    kept = tf_private.shuffles_to_keep(given.dataset) or rows_of(given.dataset) is not None
    if kept and not distribution.is_strategy:
        # Only some of its positions are counted: the same pipeline, so that the others fit it.
        feeder = _from_the_start(given, distribution, stop)
        feeder.pass_over(at)
        return feeder
    feeder = _from_the_start(given, distribution, stop, skip=batches)
    if feeder.size is not None:
        feeder.size += at
    feeder.stands_after(at)
    return feeder


def _from_the_start(
    given: ModelInput,
    distribution: Distribution,
    stop: Stop,
    skip: int = 0,
    *,
    by_rows: bool = True,
) -> Feeder:
    dataset = given.dataset.skip(skip) if skip else given.dataset
    if by_rows and not distribution.is_strategy:
        return open_feeder(dataset, given.unpack, keep_alive=given)
    return distribution.feeder(dataset, given.unpack, stop, keep_alive=given)
