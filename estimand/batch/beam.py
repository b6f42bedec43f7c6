"""Exported models and TFRecord files in Apache Beam pipelines. Needs `estimand[beam]`."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from estimand.batch.answering import Answering, plain
from estimand.batch.chunks import RowError, Rows
from estimand.core.errors import InputError, MissingExtraError
from estimand.export.loaded.rows import example_of_row

if TYPE_CHECKING:
    from estimand.export.loaded.loading import LoadedModel

__all__ = ["Predict", "WriteRecords"]
_ERRORS = "errors"
_SMALLEST_BATCH = 64
_loading = threading.Lock()


def Predict(
    export: str | os.PathLike[str],
    signature: str | None = None,
    *,
    keep: Sequence[str] = (),
    batch_size: int = 1024,
    with_errors: bool = False,
) -> Any:
    """A transform that answers rows with an exported model: a dict of plain values for each.

    A row is a dict of the model's inputs, or of the features of its tf.Examples, or a serialized
    tf.Example. A row that cannot be answered fails the pipeline, unless errors are asked for.

    Args:
      export: an exported model, or a directory of versions, of which the newest is taken. Workers
        on other machines have to find it, too.
      signature: which one to call; None: the default one.
      keep: names of a row that are put beside its answers.
      batch_size: how many rows go into one call of the model, at most.
      with_errors: give two collections, the answers, and of rows that have none a dict of `error`
        and `input`.

    >>> import apache_beam as beam, estimand as est  # doctest: +SKIP
    >>> with beam.Pipeline() as pipeline:  # doctest: +SKIP
    ...     rows = pipeline | beam.io.ReadFromParquet("rows/*.parquet")
    ...     answers, errors = rows | est.beam.Predict("exports", keep=["id"], with_errors=True)
    """
    beam = _beam()
    asking = _Asking(os.fspath(export), signature, tuple(keep))

    @beam.ptransform_fn
    def Predict(rows: Any) -> Any:
        smallest = min(batch_size, _SMALLEST_BATCH)
        outputs = (
            rows
            | beam.BatchElements(min_batch_size=smallest, max_batch_size=batch_size)
            | "Ask" >> beam.FlatMap(asking).with_outputs(_ERRORS, main="answers")
        )
        if with_errors:
            return outputs.answers, outputs[_ERRORS]
        # An error that nobody takes must not pass unnoticed.
        _ = outputs[_ERRORS] | "Fail" >> beam.Map(_fail)
        return outputs.answers

    return Predict()


def WriteRecords(
    path: str | os.PathLike[str], *, shards: int = 0, compression: str | None = None
) -> Any:
    """A transform that writes rows as TFRecord files of tf.train.Examples.

    A row is a dict of numbers, texts, bytes or lists of these, or a serialized tf.Example. The
    files appear when they are complete.

    Args:
      path: how the names of the files begin; the number and `.tfrecord` follow.
      shards: how many files; 0 leaves it to the runner.
      compression: None or "GZIP".

    >>> import estimand as est
    >>> answers | est.beam.WriteRecords("answers/part", shards=4)  # doctest: +SKIP
    """
    if compression not in (None, "GZIP"):
        raise InputError(
            f"WriteRecords: compression must be None or 'GZIP', given: {compression!r}."
        )
    beam = _beam()
    types = beam.io.filesystem.CompressionTypes
    files = beam.io.WriteToTFRecord(
        os.fspath(path),
        file_name_suffix=".tfrecord.gz" if compression else ".tfrecord",
        num_shards=shards,
        compression_type=types.GZIP if compression else types.UNCOMPRESSED,
    )

    @beam.ptransform_fn
    def WriteRecords(rows: Any) -> Any:
        return rows | "Encode" >> beam.Map(_record).with_output_types(bytes) | files

    return WriteRecords()


def _beam() -> Any:
    try:
        import apache_beam
    except ImportError:
        raise MissingExtraError("est.beam", "beam", "apache_beam") from None
    return apache_beam


@dataclasses.dataclass(frozen=True)
class _Asking:
    """What is sent to the workers: where the model is. Each process loads it once."""

    export: str
    signature: str | None
    keep: tuple[str, ...]

    def __call__(self, batch: Sequence[Any]) -> Iterator[Any]:
        with _loading:
            answering = _answering(self.export, self.signature, self.keep)
        tagged = _beam().pvalue.TaggedOutput
        for chunk in _alike(batch):
            for answered in answering.answer(chunk, lambda answers: list(answers.rows())):
                if isinstance(answered, RowError):
                    yield tagged(_ERRORS, {"error": answered.error, "input": plain(answered.input)})
                else:
                    yield from answered


@functools.lru_cache(maxsize=4)
def _answering(export: str, signature: str | None, keep: tuple[str, ...]) -> Answering:
    return Answering(_model(export), signature, keep)


@functools.lru_cache(maxsize=4)  # one, however many signatures of it are asked
def _model(export: str) -> LoadedModel:
    from estimand.export.loaded.loading import load_model

    return load_model(export)


def _alike(rows: Sequence[Any]) -> Iterator[Rows]:
    """Records and dicts apart: a call takes one kind."""
    records = [row for row in rows if isinstance(row, bytes)]
    named = [dict(row) for row in rows if not isinstance(row, bytes)]
    for kind in (records, named):
        if kind:
            yield Rows(kind, [0] * len(kind))  # which of a batch it is says nothing to anybody


def _fail(told: Mapping[str, Any]) -> None:
    raise InputError(
        f"{told['error']} Input: {str(told['input'])[:200]}. To have such rows set aside: "
        "Predict(..., with_errors=True)."
    )


def _record(row: Any) -> bytes:
    return row if isinstance(row, bytes) else example_of_row(row, {})
