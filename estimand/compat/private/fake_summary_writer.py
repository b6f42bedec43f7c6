"""`FakeSummaryWriter`: what hooks of sessions write for TensorBoard, kept to be looked at."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import tensorflow as tf

_summary = tf.compat.v1.summary


class FakeSummaryWriter:
    """Takes the place of `tf.compat.v1.summary.FileWriter`, between `install` and `uninstall`."""

    _replaced: ClassVar[Any] = None

    @classmethod
    def install(cls) -> None:
        if cls._replaced is not None:
            raise ValueError("FakeSummaryWriter already installed.")
        cls._replaced = _summary.FileWriter
        cls._put_in_place(cls)

    @classmethod
    def uninstall(cls) -> None:
        if cls._replaced is None:
            raise ValueError("FakeSummaryWriter not installed.")
        cls._put_in_place(cls._replaced)
        cls._replaced = None

    @staticmethod
    def _put_in_place(writer: Any) -> None:
        # The modules that define them are where TensorFlow's own code looks both names up.
        for owner in (_summary.FileWriter, _summary.FileWriterCache):
            setattr(sys.modules[owner.__module__], "FileWriter", writer)  # noqa: B010

    def __init__(self, logdir: Any, graph: Any = None) -> None:
        self._logdir = logdir
        self._graph = graph
        self._summaries: dict[Any, list[Any]] = {}
        self._graphs: list[Any] = []
        self._meta_graphs: list[Any] = []
        self._session_logs: list[Any] = []
        self._run_metadata: dict[str, Any] = {}

    @property
    def summaries(self) -> dict[Any, list[Any]]:
        """What was written, by step."""
        return self._summaries

    def add_summary(self, summary: Any, current_global_step: Any) -> None:
        if isinstance(summary, bytes):
            summary = tf.compat.v1.Summary.FromString(summary)
        self._summaries.setdefault(current_global_step, []).append(summary)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Keep a graph; as those who call it do, without a step and a graph_def."""
        if global_step or graph_def:
            raise ValueError("FakeSummaryWriter takes graphs without a step and a graph_def.")
        self._graphs.append(graph)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        if global_step:
            raise ValueError("FakeSummaryWriter takes meta graphs without a step.")
        self._meta_graphs.append(meta_graph_def)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        del global_step
        self._session_logs.append(session_log)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        if global_step is not None and global_step < 0:
            raise ValueError(f"global_step must be >= 0, given: {global_step}")
        self._run_metadata[tag] = run_metadata

    def flush(self) -> None:
        """Nothing is held back."""

    def reopen(self) -> None:
        """It is always open."""

    def close(self) -> None:
        """There is nothing to close."""

    def assert_summaries(
        self,
        test_case: Any,
        expected_logdir: Any = None,
        expected_graph: Any = None,
        expected_summaries: dict[Any, dict[str, Any]] | None = None,
        expected_added_graphs: Any = None,
        expected_added_meta_graphs: Any = None,
        expected_session_logs: Any = None,
    ) -> None:
        """Let `test_case` compare whatever is given with what was written."""
        for expected, actual in (
            (expected_logdir, self._logdir),
            (expected_added_graphs, self._graphs),
            (expected_added_meta_graphs, self._meta_graphs),
            (expected_session_logs, self._session_logs),
        ):
            if expected is not None:
                test_case.assertEqual(expected, actual)
        if expected_graph is not None:
            test_case.assertIs(expected_graph, self._graph)
        for step, by_tag in (expected_summaries or {}).items():
            test_case.assertIn(step, self._summaries)
            values = {v.tag: v.simple_value for s in self._summaries[step] for v in s.value}
            test_case.assertEqual(by_tag, values)
