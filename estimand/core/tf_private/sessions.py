"""Sessions: only for loading and calling exported models."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.core.protobuf import config_pb2


def session_callable(
    session: Any, feeds: Sequence[str], fetches: Sequence[str]
) -> Callable[..., list[Any]]:
    """Arrays of the feeds, in order, to a list of arrays of the fetches.

    The public `Session.make_callable` checks shapes, which a server must leave to the graph, and
    spends several times as long in Python per call.
    """
    options = config_pb2.CallableOptions(feed=list(feeds), fetch=list(fetches))
    return session._make_callable_from_options(options)


@contextlib.contextmanager
def quiet_saved_model_loader() -> Iterator[None]:
    """The v1 loader is public, and the only one into a session, but logs that it is deprecated."""

    def keep(record: logging.LogRecord) -> bool:
        return "tf.saved_model.load" not in record.getMessage()

    logger = logging.getLogger("tensorflow")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
