"""The event file for TensorBoard, beside those that training writes."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from estimand.core.files.atomic_files import replace_bytes
from estimand.engine import events
from estimand.estimator.workspace import Workspace
from estimand.export.saved_model import EXTRA_FOLDER
from estimand.report import history
from estimand.report.board import answers, layout, projector
from estimand.report.history import History

# Files are read in the order of their names, and only the last is followed: these are the first,
# so that those of a training that goes on come after them.
FILE = "events.out.tfevents.0000000000.board"
FILE_OF_ANSWERS = "events.out.tfevents.0000000001.board"


def write(
    model_dir: str | os.PathLike[str],
    estimator: Any = None,
    input_fn: Callable[..., Any] | None = None,
    rows: int = 5000,
    words: Mapping[str, str | os.PathLike[str]] | None = None,
) -> str:
    """Write what TensorBoard shows besides curves into a model_dir; replaces what was there.

    That is the scalars laid out by group, the parameters as hparams, the model card as text, and
    the embeddings for the projector.

    Args:
      model_dir: of a training, finished or still running.
      estimator: with `input_fn`, also precision and recall of a classifier at each checkpoint that
        is left, and the rows and images that the newest gets wrong.
      input_fn: an evaluation input, with labels.
      rows: of so many of its rows.
      words: part of the name of an embedding -> the file of its vocabulary.

    Returns:
      The path of the event file.

    >>> est.report.write_board("runs/census")  # doctest: +SKIP
    'runs/census/events.out.tfevents.0000000000.board'
    """
    item = history.read(model_dir)
    projector.write(item.directory, words or {})
    with _replacing(item, FILE):
        _record(item)
    if estimator is not None and input_fn is not None:
        # A file of its own: it stays when the others are written again without a program.
        with _replacing(item, FILE_OF_ANSWERS):
            _record_parameters(Workspace.params_noted_by(estimator), item)
            answers.record(estimator, input_fn, rows, item)
    return os.path.join(item.directory, FILE)


@contextlib.contextmanager
def _replacing(item: History, name: str) -> Iterator[None]:
    """Inside, summaries go into a new event file, which then takes its place in the model_dir."""
    with tempfile.TemporaryDirectory() as folder:
        writer = tf.summary.create_file_writer(folder)
        with writer.as_default(item.last_step):
            yield
        writer.close()
        (made,) = Path(folder).iterdir()
        replace_bytes(os.path.join(item.directory, name), made.read_bytes())


def _record(item: History) -> None:
    _write(layout.summary(item))
    _record_parameters(item.parameters(), item)
    cards = [Path(export.directory, EXTRA_FOLDER, "model_card.md") for export in item.exports]
    for newest in [card for card in cards if card.exists()][-1:]:
        tf.summary.text("model_card", newest.read_text("utf-8"))


def _record_parameters(params: Mapping[str, Any], item: History) -> None:
    from tensorboard.plugins.hparams import api as hparams

    if params and not _has_hparams_of_others(item.directory):
        flat = history.in_one_level(params)
        # What the page calls the run: without a name it would be a number in hexadecimals.
        run = os.path.join(*Path(item.directory).parts[-2:])
        _write(hparams.hparams_pb({name: _plain(value) for name, value in flat}, trial_id=run))


def _has_hparams_of_others(directory: str) -> bool:
    """Those of a search, or of the program: TensorBoard shows the first that it finds in a run."""
    files = [file for file in events.event_files(directory) if not file.endswith(".board")]
    return any(
        value.tag == "_hparams_/session_start_info"
        for file in files
        for event in events.read_events(file)
        for value in event.summary.value
    )


def _write(summary: Any) -> None:
    tf.summary.experimental.write_raw_pb(summary.SerializeToString())


def _plain(value: Any) -> bool | int | float | str:
    """TensorBoard's hparams are numbers, words and truths."""
    if isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value, default=str)
