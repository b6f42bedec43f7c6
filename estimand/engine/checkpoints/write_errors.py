"""What to say when a checkpoint could not be written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from estimand.core.errors import CheckpointWriteError
from estimand.core.files.atomic_files import remove_quietly
from estimand.engine.checkpoints.publishing import discard_temporary


def write_error(prefix: str, error: OSError | tf.errors.OpError) -> CheckpointWriteError:
    """The error to raise: what failed, why, what is still whole and what to do."""
    directory = os.path.dirname(prefix)
    if not os.path.isdir(directory):
        return CheckpointWriteError(
            f"Could not write checkpoint {prefix}: the directory {directory} has been removed "
            "while the model was being trained, and all earlier checkpoints with it."
        )
    reason = _reason(error)
    if isinstance(error, (FileNotFoundError, tf.errors.NotFoundError)):
        return CheckpointWriteError(
            f"Could not write checkpoint {prefix}: somebody else removes files from {directory} "
            f"while the model is being trained ({reason})."
        )
    remedy = "start again once that is mended"
    if isinstance(error, tf.errors.ResourceExhaustedError) or "No space left" in reason:
        reason, remedy = f"the disk is full ({reason})", "free some space and start again"
    elif "File too large" in reason:
        reason = f"a file is too large for its file system, or for `ulimit -f` ({reason})"
    elif isinstance(error, (PermissionError, tf.errors.PermissionDeniedError)):
        reason, remedy = f"permission denied ({reason})", "make the directory writable"
    return CheckpointWriteError(
        f"Could not write checkpoint {prefix}: {reason}; earlier checkpoints in "
        f"{directory} are intact: {remedy}."
    )


def _reason(error: OSError | tf.errors.OpError) -> str:
    """What the system says, without where in TensorFlow and about which temporary file."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return text.rpartition("}} ")[2].partition(" [Op:")[0].rpartition("; ")[2]


@contextlib.contextmanager
def clearing_up(prefix: str, *temporaries: str | None) -> Iterator[None]:
    """Where writing the checkpoint `prefix` fails, nothing stays of it under temporary names."""
    try:
        yield
    except BaseException as error:
        for temporary in temporaries:
            if temporary is not None:
                discard_temporary(temporary)
                remove_quietly(temporary)
        # A server that is lost while it writes is told as any other loss.
        lost = isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError))
        if isinstance(error, (OSError, tf.errors.OpError)) and not lost:
            raise write_error(prefix, error) from error
        raise
