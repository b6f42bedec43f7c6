"""One shard: read, worked on, written, marked as finished."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from estimand.batch import files
from estimand.batch.answering import plain
from estimand.batch.chunks import Chunk, RowError, by_parts, read_chunks
from estimand.batch.plan import Job, Work
from estimand.batch.writing import json_line


def do_shard(work: Work, job: Job, number: int) -> dict[str, int]:
    """Write the file of a shard, and give its counts: rows that are in it, rows that could not be.

    Its mark comes last: without it, all is done again.
    """
    to_errors, to_file = job.errors(number), job.file(number)
    with files.replacing(to_errors) as errors, files.replacing(to_file) as file:
        counts = _write(work, job, number, file, errors)
        job.check_unchanged(number)  # also while it was read
    if not counts["errors"]:
        files.remove(job.errors(number))
    files.write_text(job.mark(number), json.dumps({**counts, **work.notes()}))
    return counts


def _write(work: Work, job: Job, number: int, file: str, errors: str) -> dict[str, int]:
    counts = {"rows": 0, "errors": 0}
    path = job.shards[number].path
    with (
        contextlib.closing(work.open(file)) as writer,
        # Text may be the reason that cannot be UTF-8; it is then as JSON writes it in ASCII.
        open(errors, "w", encoding="utf-8", errors="backslashreplace") as broken,
    ):
        for made in _made(work, job, number):
            if isinstance(made, RowError):
                counts["errors"] += 1
                broken.write(json_line({"file": path, **_described(made)}))
            else:
                rows, encoded = made
                counts["rows"] += rows
                writer.write(encoded)
    return counts


def _made(work: Work, job: Job, number: int) -> Iterator[tuple[int, Any] | RowError]:
    def make(chunk: Chunk) -> tuple[int, Any]:
        return len(chunk), work.encode(chunk)

    shard = job.shards[number]
    names_are_known = False
    chunks = read_chunks(shard.path, shard.format, work.rows_at_once, shard.begin, shard.end)
    for chunk in chunks:
        if isinstance(chunk, RowError):
            yield chunk
            continue
        if not names_are_known:
            work.check_names(chunk, shard.path)
            names_are_known = True
        yield from by_parts(chunk, make)


def _described(error: RowError) -> dict[str, object]:
    return {"row": error.row, "error": error.error, "input": plain(error.input)}
