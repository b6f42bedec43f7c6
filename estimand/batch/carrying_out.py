"""A job from its beginning, or from where it was broken off, to its end."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from estimand.batch import files, processes
from estimand.batch.plan import Job
from estimand.batch.processes import Outcome
from estimand.core import voice
from estimand.core.errors import BatchError


@dataclasses.dataclass(frozen=True)
class JobSummary:
    """What became of a job; `notes` are those of its shards, in their order."""

    rows: int
    errors: int
    files: list[str]
    error_files: list[str]
    done_before: int
    notes: list[dict[str, Any]]


def carry_out(job: Job, workers: int, ray: str | None) -> JobSummary:
    """In so many processes of this machine, or of a Ray cluster."""
    with voice.speaking():
        _remove_leftovers(job)
        before = job.finished()
        left = [number for number in range(len(job.shards)) if number not in before]
        if before and left:
            voice.tell("%d of %d shards are done already.", len(before), len(job.shards))
        outcomes = _told(_run(job, left, workers, ray), len(left))
        failed = [outcome for outcome in outcomes if outcome.failure]
        _remove_leftovers(job)
        if failed:
            raise _failure(job, failed)
        return _summary(job, len(before))


def _run(job: Job, numbers: Sequence[int], workers: int, ray: str | None) -> Iterable[Outcome]:
    if ray is None:
        return processes.run(job, numbers, workers)
    from estimand.batch import on_ray

    return on_ray.run(job, numbers, workers, ray)


def _told(outcomes: Iterable[Outcome], count: int) -> Iterator[Outcome]:
    """With a line for about each tenth of them."""
    rows = errors = 0
    for done, outcome in enumerate(outcomes, 1):
        rows += outcome.rows
        errors += outcome.errors
        if done * 10 // count > (done - 1) * 10 // count:
            broken = f", {errors:,} without a result" if errors else ""
            voice.tell("%d of %d shards: %s rows%s.", done, count, f"{rows:,}", broken)
        yield outcome


def _failure(job: Job, failed: Sequence[Outcome]) -> BatchError:
    first = failed[0]
    shard = job.shards[first.number]
    others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return BatchError(
        f"{len(failed)} of {len(job.shards)} shards could not be done. {shard.path}{others}: "
        f"{first.failure}\nRun the same again: what is finished is kept."
    )


def _summary(job: Job, done_before: int) -> JobSummary:
    counts = job.finished()
    numbers = range(len(job.shards))
    broken = [job.errors(number) for number in numbers if counts[number]["errors"]]
    summary = JobSummary(
        sum(count["rows"] for count in counts.values()),
        sum(count["errors"] for count in counts.values()),
        [job.file(number) for number in numbers],
        broken,
        done_before,
        [counts[number] for number in numbers],
    )
    files.write_text(job.success, json.dumps({"rows": summary.rows, "errors": summary.errors}))
    return summary


def _remove_leftovers(job: Job) -> None:
    for name in ("", "_job", "_errors"):
        files.remove_leftovers(os.path.join(job.output, name))
