"""Calls of TensorFlow's that callers replace to see, or to fake, what happens."""

from __future__ import annotations

from typing import Any


def warn(message: str, *args: Any) -> None:
    """A warning in TensorFlow's log, by way of the function that callers replace to see it."""
    from tensorflow.python.platform import tf_logging

    tf_logging.warning(message, *args)


def list_directory(path: Any) -> list[Any]:
    """The names in a directory, by the function of TensorFlow 1."""
    from tensorflow.python.platform import gfile

    return gfile.ListDirectory(path)


def inform(message: str, *args: Any) -> None:
    """The same for a line of information."""
    from tensorflow.python.platform import tf_logging

    tf_logging.info(message, *args)


def seconds_timer(every_secs: float) -> Any:
    """A `SecondOrStepTimer`."""
    from tensorflow.python.training import basic_session_run_hooks

    return basic_session_run_hooks.SecondOrStepTimer(every_secs=every_secs)


def std_server(cluster: Any, **settings: Any) -> Any:
    """A server of TensorFlow 1's distributed runtime, `tf.distribute.Server`."""
    from tensorflow.python.training import server_lib

    return server_lib.Server(cluster, **settings)


def unwrapped(module: Any) -> Any:
    """The module behind the wrapper that tells of deprecated names, where a `__getattr__` works."""
    return vars(module).get("_tfmw_wrapped_module", module)
