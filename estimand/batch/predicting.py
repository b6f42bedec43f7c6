"""`predict`: the answers of an exported model to all rows of many files."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

from estimand.batch.carrying_out import carry_out
from estimand.batch.checks import check_formats, check_numbers
from estimand.batch.plan import Job, begin_or_go_on, cut, files_of, folder_of, known_of
from estimand.batch.predict_task import PredictTask, Settings
from estimand.export.loaded.holding import Hold
from estimand.export.loaded.row_files import FORMATS
from estimand.inputs.files import Paths


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
    check_formats("predict", set(FORMATS.values()), input_format=input_format, format=format)
    check_numbers("predict", workers=workers, batch_size=batch_size, shard_rows=shard_rows)
    settings = Settings(signature, tuple(keep), input_format, format, shard_rows)
    job, version = plan_job(export, input, output, settings, batch_size)
    with _held(version):
        done = carry_out(job, workers, ray)
    return Predicted(done.rows, done.errors, done.files, done.error_files, done.done_before)


def plan_job(
    export: str | os.PathLike[str],
    input: Paths,
    output: str | os.PathLike[str],
    settings: Settings,
    batch_size: int,
) -> tuple[Job, str]:
    """The job in `output`, begun there if it has not been, and the version that answers."""
    folder = folder_of(output)
    known, paths = known_of(folder), files_of("predict", input, folder)
    shards = cut(paths, settings.input_format, settings.shard_rows)
    task = PredictTask.chosen(os.fspath(export), settings, batch_size, known)
    return begin_or_go_on(folder, paths, shards, known, task), task.export


@contextlib.contextmanager
def _held(export: str) -> Iterator[None]:
    """An exporter must not delete the version between two processes that load it."""
    hold = Hold(export)
    try:
        yield
    finally:
        hold.release()
