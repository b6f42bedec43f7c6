"""A parameter server that is told to end, and the chief that saves before it does.

Variables on a server are gone with its process, and with them all steps since the last checkpoint.
Machines that are taken away send SIGTERM a while before. A server that gets one leaves a note in
its folder and goes on serving. The chief looks for such notes, by an operation that it places at
the servers, so no disk has to be shared; it then ends as if it had got the signal itself: it saves
and leaves. The server ends when the chief has gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from estimand.cluster.addresses import Cluster, addresses_of
from estimand.cluster.description import Task
from estimand.core.tf_config import TaskType
from estimand.core.tf_private import eager_mode

_SECONDS_BETWEEN_LOOKS = 1.0

_log = logging.getLogger("tensorflow")


class PreemptionNotice:
    """Of a server: whether it was told to end. A second signal ends it at once."""

    def __init__(self, note: str) -> None:
        self._note = note
        self.told = False

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Inside, the first SIGTERM only leaves the note. Python allows it in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.told = True
        with contextlib.suppress(OSError), open(self._note, "w"):
            pass


@contextlib.contextmanager
def preemption_noticed(cluster: Cluster, note_of: Callable[[Task, str], str]) -> Iterator[None]:
    """In the chief: look for the notes of servers from another thread, and end if there is one."""
    notes = {
        task: note_of(task, address)
        for task, address in addresses_of(cluster).items()
        if task.role == TaskType.PS
    }
    over = threading.Event()

    def run() -> None:
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            leaving = [task for task, note in notes.items() if _is_there(task, note)]
            if leaving and not over.is_set():
                told = ", ".join(map(str, leaving))
                _log.warning("%s was told to end: training is saved and ends, too.", told)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=run, name="estimand-preemption", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _is_there(task: Task, note: str) -> bool:
    import tensorflow as tf

    try:
        with eager_mode(), tf.device(f"/job:{task.role}/task:{task.index}/device:CPU:0"):
            return bool(tf.raw_ops.MatchingFiles(pattern=note).numpy().size)
    except (tf.errors.OpError, ValueError, RuntimeError):  # lost, or not joined yet
        return False
