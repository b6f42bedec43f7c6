"""The owner's end of the process: started when it is needed, killed when it takes too long."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

from estimand.serving.large_json import work
from estimand.serving.status import StatusError, deadline_exceeded


class Process:
    """Blocking: for one thread. Sending, waiting and receiving leave Python's lock alone."""

    def __init__(self, budget: work.Budget) -> None:
        self._budget = budget
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.pid

    def run(self, job: Any, body: Any, deadline: float) -> Any:
        """`deadline` is a time of `time.monotonic`. Raises what the job raised."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise deadline_exceeded()
        if self._running is not None and self._running.poll() is not None:
            self.stop()  # it died while it had nothing to do, and not of this body
        process = self._running or self._start()
        timer = threading.Timer(left, process.kill)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            work.send(process.stdin, (job, pickle.PickleBuffer(body)))
            result = work.receive(process.stdout)
        except (EOFError, OSError):
            self.stop()
            if time.monotonic() >= deadline:
                raise deadline_exceeded() from None
            raise work.over_budget("The body takes more memory than it may.") from None
        finally:
            timer.cancel()
        if isinstance(result, StatusError):
            raise result
        return result

    def stop(self) -> None:
        process, self._running = self._running, None
        if process is None:
            return
        process.kill()
        for end in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if end is not None:
                    end.close()
        process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        module = "estimand.serving.large_json.work"
        self._running = subprocess.Popen(
            [sys.executable, "-m", module, str(self._budget.process_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return self._running
