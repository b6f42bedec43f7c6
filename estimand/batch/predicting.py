"""`predict`: the answers of an exported model to all rows of many files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from estimand.batch import files, processes
from estimand.batch.plan import Job, Settings, make_job
from estimand.batch.processes import Outcome
from estimand.core import voice
from estimand.core.errors import BatchError, InputError
from estimand.export.holding import Hold
from estimand.export.row_files import FORMATS
from estimand.inputs.files import Paths

Engine = Callable[[Sequence[int]], Iterable[Outcome]]


@dataclasses.dataclass(frozen=True)
class Predicted:
    """What `predict` has done.

    Attributes:
      rows: how many got an answer.
      errors: how many got none; the files that `error_files` names say why.
      files: where the answers are, in the order of the input.
      error_files: JSON lines with file, row, error and input.
      done_before: how many of the shards an earlier call had finished.
    """

    rows: int
    errors: int
    files: list[str]
    error_files: list[str]
    done_before: int


def predict(
    export: str | os.PathLike[str],
    input: Paths,
    output: str | os.PathLike[str],
    *,
    workers: int = 1,
    signature: str | None = None,
    keep: Sequence[str] = (),
    input_format: str | None = None,
    format: str | None = None,
    batch_size: int = 1024,
    shard_rows: int = 2**18,
    ray: str | None = None,
) -> Predicted:
    """Answer every row of many files with an exported model, in several processes.

    Each file is a shard, and of a Parquet file every `shard_rows` rows are one. A shard has one
    file of answers, in the order of its rows, which appears when it is complete. Call it again
    after it was interrupted, in whatever way: shards that are finished are not done again. Rows
    that cannot be answered are collected beside the answers.

    Args:
      export: an exported model, or a directory of versions, of which the newest is taken; a job
        that goes on keeps the version that it was begun with.
      input: paths or patterns of CSV, JSON, Parquet or TFRecord files; also gs:// and what else
        TensorFlow's file systems know.
      output: a directory of its own.
      workers: how many processes share the shards.
      signature: which one to call; None: the default one.
      keep: columns of the input that are written beside the answers.
      input_format: "csv", "json", "parquet" or "tfrecord", if the endings do not tell.
      format: the same of the output; None: that of the input.
      batch_size: rows per call of the model.
      shard_rows: into how many rows Parquet files are cut.
      ray: the address of a Ray cluster whose machines do the work, "auto" for the one that this
        machine is part of, "local" for one that is started here (`pip install 'estimand[ray]'`).

    Raises:
      BatchError: some shards could not be done; the others are.

    >>> import estimand as est
    >>> est.batch.predict("exports", "rows/*.parquet", "answers", workers=2)  # doctest: +SKIP
    Predicted(rows=1000000, errors=0, files=['/data/answers/predictions-00000-of-00004.parquet', …
    """
    _check_formats(input_format=input_format, format=format)
    _check_numbers(workers=workers, batch_size=batch_size, shard_rows=shard_rows)
    settings = Settings(signature, tuple(keep), input_format, format, shard_rows)
    job = make_job(export, input, output, settings, batch_size)
    with voice.speaking(), _held(job.export):
        return _carried_out(job, _engine(job, workers, ray))


def _engine(job: Job, workers: int, ray: str | None) -> Engine:
    if ray is None:
        return lambda numbers: processes.run(job, numbers, workers)
    from estimand.batch import on_ray

    return lambda numbers: on_ray.run(job, numbers, workers, ray)


def _check_formats(**formats: str | None) -> None:
    known = sorted(set(FORMATS.values()))
    for name, chosen in formats.items():
        if chosen not in (None, *known):
            raise InputError(
                f"predict: {name} must be one of {', '.join(known)}, given: {chosen!r}."
            )


def _check_numbers(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise InputError(f"predict: {name} must be at least 1, given: {number!r}.")


@contextlib.contextmanager
def _held(export: str) -> Iterator[None]:
    """An exporter must not delete the version between two processes that load it."""
    hold = Hold(export)
    try:
        yield
    finally:
        hold.release()


def _carried_out(job: Job, run: Engine) -> Predicted:
    _remove_leftovers(job)
    before = job.finished()
    left = [number for number in range(len(job.shards)) if number not in before]
    if before and left:
        voice.tell("%d of %d shards are done already.", len(before), len(job.shards))
    failed = [outcome for outcome in _told(run(left), len(left)) if outcome.failure]
    _remove_leftovers(job)
    if failed:
        raise _failure(job, failed)
    return _summary(job, len(before))


def _told(outcomes: Iterable[Outcome], count: int) -> Iterator[Outcome]:
    """With a line for about each tenth of them."""
    rows = errors = 0
    for done, outcome in enumerate(outcomes, 1):
        rows += outcome.rows
        errors += outcome.errors
        if done * 10 // count > (done - 1) * 10 // count:
            broken = f", {errors:,} without an answer" if errors else ""
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


def _summary(job: Job, done_before: int) -> Predicted:
    counts = job.finished()
    numbers = range(len(job.shards))
    broken = [job.errors(number) for number in numbers if counts[number]["errors"]]
    done = Predicted(
        sum(one["rows"] for one in counts.values()),
        sum(one["errors"] for one in counts.values()),
        [job.predictions(number) for number in numbers],
        broken,
        done_before,
    )
    files.write_text(job.success, json.dumps({"rows": done.rows, "errors": done.errors}))
    return done


def _remove_leftovers(job: Job) -> None:
    for name in ("", "_job", "_errors"):
        files.remove_leftovers(os.path.join(job.output, name))
