"""Sessions: for loading and calling exported models, and those of model functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.saved_model import loader_impl

from estimand.core.interpreter.swapping import swapped


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


@contextlib.contextmanager
def sessions_on(graph: Any, run_in: Callable[..., Any]) -> Iterator[None]:
    """Inside, sessions of TensorFlow on `graph` run by `run_in(session, fetches, feed_dict)`.

    They could not by themselves: the graph is that of a function, and its variables are outside.
    """
    from tensorflow.python.client.session import BaseSession

    def runs(run: Callable[..., Any]) -> Callable[..., Any]:
        def of_session(session: Any, fetches: Any, feed_dict: Any = None, *others: Any) -> Any:
            if session.graph is graph:
                return run_in(session, fetches, feed_dict)
            return run(session, fetches, feed_dict, *others)

        return of_session

    with swapped([(BaseSession, "run", runs)]):
        yield
