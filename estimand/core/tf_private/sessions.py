"""Sessions: only for loading and calling exported models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.saved_model import loader_impl


def session_callable(
    session: Any, feeds: Sequence[str], fetches: Sequence[str], seconds: float = 0.0
) -> Callable[..., list[Any]]:
    """Arrays of the feeds, in order, to a list of arrays of the fetches.

    With `seconds`, a call that takes longer is ended with DeadlineExceededError. That costs a
    tenth of a millisecond, for the call then runs on a thread of TensorFlow.

    The public `Session.make_callable` checks shapes, which a server must leave to the graph, and
    spends several times as long in Python per call.
    """
    options = config_pb2.CallableOptions(feed=list(feeds), fetch=list(fetches))
    options.run_options.timeout_in_ms = round(1000 * seconds)
    return session._make_callable_from_options(options)


class SavedModelReader:
    """One SavedModel's file, read once: its graph to look at, and then to load into a session.

    The public v1 loader cannot be asked what it is going to load.
    """

    def __init__(self, directory: str, tags: Sequence[str]) -> None:
        self._loader = loader_impl.SavedModelLoader(directory)
        self._tags = list(tags)
        self.meta_graph = self._loader.get_meta_graph_def_from_tags(self._tags)

    def load_into(self, session: Any) -> None:
        saver, _ = self._loader.load_graph(session.graph, self._tags)
        self._loader.restore_variables(session, saver)
        self._loader.run_init_ops(session, self._tags)
