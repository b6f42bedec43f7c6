"""One shard: read, answered, written, marked as finished."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator

from estimand.batch import files
from estimand.batch.answering import Answering, plain
from estimand.batch.chunks import RowError, read_chunks
from estimand.batch.plan import Job
from estimand.batch.writing import Writer, json_line, open_writer


@dataclasses.dataclass
class Counts:
    """Rows that were answered, and rows that could not be."""

    rows: int = 0
    errors: int = 0


def predict_shard(answering: Answering, job: Job, number: int) -> Counts:
    """Write the answers of a shard. Its mark comes last: without it, all is done again."""
    counts = Counts()
    to_errors, to_predictions = job.errors(number), job.predictions(number)
    with files.replacing(to_errors) as errors, files.replacing(to_predictions) as predictions:
        _answer(answering, job, number, predictions, errors, counts)
    if not counts.errors:
        files.remove(job.errors(number))
    files.write_text(job.mark(number), json.dumps(dataclasses.asdict(counts)))
    return counts


def _answer(
    answering: Answering, job: Job, number: int, predictions: str, errors: str, counts: Counts
) -> None:
    shard = job.shards[number]
    writer = open_writer(predictions, job.format, answering.outputs, job.settings.keep)
    with contextlib.closing(writer), open(errors, "w", encoding="utf-8") as broken:
        for answer in _answers(answering, job, number, writer):
            if isinstance(answer, RowError):
                counts.errors += 1
                broken.write(json_line({"file": shard.path, **_described(answer)}))
            else:
                rows, encoded = answer
                counts.rows += rows
                writer.write(encoded)


def _answers(
    answering: Answering, job: Job, number: int, writer: Writer
) -> Iterator[tuple[int, object] | RowError]:
    shard = job.shards[number]
    names_are_known = False
    chunks = read_chunks(shard.path, shard.format, job.batch_size, shard.begin, shard.end)
    for chunk in chunks:
        if isinstance(chunk, RowError):
            yield chunk
            continue
        if not names_are_known:
            answering.check_names(chunk, shard.path)
            names_are_known = True
        yield from answering.answer(chunk, lambda answers: (answers.count, writer.encode(answers)))


def _described(error: RowError) -> dict[str, object]:
    return {"row": error.row, "error": error.error, "input": plain(error.input)}
