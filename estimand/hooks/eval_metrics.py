"""The results of evaluations, read back from their event files."""

from __future__ import annotations

import os

from estimand.engine.events import event_files, read_events


def read_eval_metrics(eval_dir: str | os.PathLike[str]) -> dict[int, dict[str, float]]:
    """The numbers of every evaluation by global step, in the order of steps.

    A step that was evaluated twice has its newest numbers. A file that is cut off counts as far
    as it goes.

    Args:
      eval_dir: where its event files are; None: those of the unnamed evaluation.

    >>> import tempfile
    >>> from estimand.engine.events import EventWriter
    >>> writer = EventWriter.get(tempfile.mkdtemp())
    >>> writer.scalars({"loss": 0.5}, step=200)
    >>> writer.scalars({"loss": 0.75}, step=100)
    >>> writer.close()
    >>> read_eval_metrics(writer.directory)
    {100: {'loss': 0.75}, 200: {'loss': 0.5}}
    """
    by_step: dict[int, dict[str, float]] = {}
    for file in event_files(eval_dir):
        for event in read_events(file):
            numbers = {
                value.tag: value.simple_value
                for value in event.summary.value
                if value.HasField("simple_value")
            }
            if numbers:
                by_step.setdefault(event.step, {}).update(numbers)
    return dict(sorted(by_step.items()))


class EvalMetrics:
    """The same, read again only when a file has changed."""

    def __init__(self, eval_dir: str | os.PathLike[str]) -> None:
        self.eval_dir = os.fspath(eval_dir)
        self._seen: list[tuple[str, int]] | None = None
        self._metrics: dict[int, dict[str, float]] = {}

    def read(self) -> dict[int, dict[str, float]]:
        """What there is by now."""
        sizes = [(file, os.path.getsize(file)) for file in event_files(self.eval_dir)]
        if sizes != self._seen:
            self._metrics, self._seen = read_eval_metrics(self.eval_dir), sizes
        return self._metrics
