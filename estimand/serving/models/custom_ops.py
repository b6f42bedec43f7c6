"""Operations that TensorFlow does not have: shared libraries, and models that miss them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from estimand.core.errors import ConfigError
from estimand.serving.status import StatusError

_MISSING = (
    re.compile(r"Op type not registered '([^']+)'"),
    re.compile(r"No op named (\S+) in defined operations"),
)


def load(paths: Sequence[str]) -> None:
    """Make the operations of these libraries known, for all models."""
    import tensorflow as tf

    for path in paths:
        full = os.path.abspath(path)
        if not os.path.isfile(full):
            raise ConfigError(f"--load_op_library={path}: there is no such file.")
        try:
            tf.load_op_library(full)
        except (tf.errors.OpError, RuntimeError, OSError) as error:
            raise ConfigError(
                f"--load_op_library={path} cannot be loaded: {error}. It has to be built against "
                f"the headers of TensorFlow {tf.__version__} (tf.sysconfig.get_compile_flags())."
            ) from error


def explained(error: BaseException) -> StatusError | None:
    """A clear word on a model with an operation that no library has; None for other errors.

    >>> explained(ValueError("No op named ZeroOut in defined operations.")).text
    "The model uses the operation 'ZeroOut', which neither TensorFlow nor a loaded library has. \
Start the server with --load_op_library=PATH, the .so file that has it."
    """
    for pattern in _MISSING:
        if match := pattern.search(str(error)):
            return StatusError.of(
                "NOT_FOUND",
                f"The model uses the operation {match[1]!r}, which neither TensorFlow nor a "
                "loaded library has. Start the server with --load_op_library=PATH, the .so file "
                "that has it.",
            )
    return None
