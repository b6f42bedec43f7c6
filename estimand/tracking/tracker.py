"""What is asked of a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"


class Tracker(Protocol):
    """Where runs are kept. Its methods may raise what they like: no training ends by it.

    >>> class Printed:
    ...     def start(self, run_id, name):
    ...         return run_id or "run-1"
    ...     def params(self, values):
    ...         print(values)
    ...     def metrics(self, values, step):
    ...         print(step, values)
    ...     def artifact(self, path, name):
    ...         print(name)
    ...     def end(self, status):
    ...         print(status)
    """

    def start(self, run_id: str | None, name: str) -> str:
        """Begin a run, or go on with that of `run_id`; returns its id, which model_dir keeps."""

    def params(self, values: Mapping[str, Any]) -> None:
        """The parameters of the training, flat: names with dots."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Numbers at a step."""

    def artifact(self, path: str, name: str) -> None:
        """A file, or a folder: an exported model is one with a `saved_model.pb`."""

    def end(self, status: str) -> None:
        """The run is over: "finished", "failed" or "interrupted"."""
