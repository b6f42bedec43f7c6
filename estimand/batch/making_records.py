"""`make_records`: all rows of many files as TFRecord files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from estimand.batch import files
from estimand.batch.carrying_out import carry_out
from estimand.batch.checks import check_formats, check_numbers
from estimand.batch.plan import begin_or_go_on, cut, files_of, folder_of, known_of
from estimand.batch.records_task import RecordsTask, Settings
from estimand.batch.statistics import Statistics
from estimand.core.errors import InputError
from estimand.inputs.files import Paths
from estimand.inputs.records.columns import KINDS
from estimand.inputs.records.schemas import Schema

_STATISTICS = "_statistics.json"
_READABLE = ("csv", "json", "parquet")


@dataclasses.dataclass(frozen=True)
class RecordsMade:
    """What `make_records` has done.

    Attributes:
      records: how many there are.
      errors: how many rows could not become one; the files that `error_files` names say why.
      files: where the records are, in the order of the input.
      error_files: JSON lines with file, row, error and input.
      done_before: how many of the shards an earlier call had finished.
      schema: the features of the records; its `parse_spec()` is for `tf.io.parse_example`.
      statistics: of each feature, how many records lack it, mean, standard deviation, least and
        greatest of numbers, the most frequent texts. Also in `_statistics.json`.
    """

    records: int
    errors: int
    files: list[str]
    error_files: list[str]
    done_before: int
    schema: Schema
    statistics: dict[str, Any]


def make_records(
    input: Paths,
    output: str | os.PathLike[str],
    *,
    workers: int = 1,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
    input_format: str | None = None,
    shard_rows: int | None = None,
    ray: str | None = None,
) -> RecordsMade:
    """Write every row of many files as a tf.train.Example, in several processes.

    Each file is a shard, and of a Parquet file or a folder of images every `shard_rows` rows are
    one. A shard has one TFRecord file, in the order of its rows, which appears when it is
    complete. Call it again after it was interrupted, in whatever way: shards that are finished are
    not done again. Rows that cannot become records are collected beside them.

    Args:
      input: paths or patterns of CSV, JSON or Parquet files, or a folder that holds a folder of
        images for each class.
      output: a directory of its own.
      workers: how many processes share the shards.
      kinds: "bytes", "float" or "int64" for features where the first thousand values of each file
        would mislead.
      compression: None or "GZIP".
      input_format: "csv", "json" or "parquet", if the endings do not tell.
      shard_rows: into how many rows Parquet files and folders of images are cut; None: 262,144
        and 1,024.
      ray: the address of a Ray cluster whose machines do the work, "auto" for the one that this
        machine is part of, "local" for one that is started here (`pip install 'estimand[ray]'`).

    Raises:
      BatchError: some shards could not be done; the others are.

    >>> import os, tempfile
    >>> import estimand as est
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "people.csv"), "w") as file:
    ...     _ = file.write("name,born\\nAda,1815\\nGrace,1906\\n")
    >>> made = est.batch.make_records(os.path.join(folder, "*.csv"), os.path.join(folder, "out"))
    >>> made.records, made.statistics["features"]["born"]["max"]
    (2, 1906.0)
    >>> list(est.records.read(made.files))
    [{'born': 1815, 'name': b'Ada'}, {'born': 1906, 'name': b'Grace'}]
    """
    check_formats("make_records", _READABLE, input_format=input_format)
    check_numbers("make_records", workers=workers, shard_rows=shard_rows or 1)
    _check(compression, kinds or {})
    settings = Settings(dict(kinds or {}), compression, input_format, shard_rows)
    folder = folder_of(output)
    known, paths = known_of(folder), files_of("make_records", input, folder, folders=True)
    shards = cut(paths, input_format, shard_rows)
    if records := [shard.path for shard in shards if shard.format == "tfrecord"]:
        raise InputError(f"make_records: {records[0]} holds records already.")
    task = RecordsTask.chosen(settings, shards, known)
    job = begin_or_go_on(folder, paths, shards, known, task)
    done = carry_out(job, workers, ray)
    joined = Statistics.of_notes(note["statistics"] for note in done.notes)
    _check_kinds(joined)
    told = joined.described(done.rows)
    files.write_text(os.path.join(folder, _STATISTICS), json.dumps(told, indent=1))
    return RecordsMade(
        records=done.rows,
        errors=done.errors,
        files=done.files,
        error_files=done.error_files,
        done_before=done.done_before,
        schema=joined.schema(done.rows),
        statistics=told,
    )


def _check(compression: str | None, kinds: Mapping[str, str]) -> None:
    if compression not in (None, "GZIP"):
        raise InputError(
            f"make_records: compression must be None or 'GZIP', given: {compression!r}."
        )
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise InputError(
                f"make_records: the kind of {name!r} must be one of {', '.join(KINDS)}, given: "
                f"{kind!r}."
            )


def _check_kinds(joined: Statistics) -> None:
    """Of a feature that no file begins with, nobody could tell the kind beforehand."""
    for name, feature in joined.features.items():
        if len(feature.kinds) > 1:
            raise InputError(
                f"make_records: {name!r} is {' in some files and '.join(feature.kinds)} in others. "
                f"Begin anew, in another directory, with --kind {name}={feature.kinds[0]}."
            )
