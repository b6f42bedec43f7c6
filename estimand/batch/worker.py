"""A process that works on shards: `python -m estimand.batch.worker OUTPUT EXPORT BATCH_SIZE`.

It is told numbers of shards on its standard input, a line each, and answers with a line of JSON.
When its standard input ends, nobody waits for it any more, and it ends at once, in the middle of a
shard too: whoever started it may have been killed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading
from typing import Any

from estimand.core.errors import EstimandError


def main(arguments: list[str]) -> None:
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(numbers,), daemon=True).start()
    # What a model prints is not taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    output, export, batch_size = arguments
    work = Work(output, export, int(batch_size))
    _say(answers, {"ready": True})
    while True:
        _say(answers, work.predict(numbers.get()))


class Work:
    """A job with its model loaded."""

    def __init__(self, output: str, export: str, batch_size: int) -> None:
        from estimand.batch.answering import Answering
        from estimand.batch.plan import load_job
        from estimand.export.loading import load_model

        self._job = load_job(output, export, batch_size)
        settings = self._job.settings
        self._answering = Answering(load_model(export), settings.signature, settings.keep)

    def begun(self) -> dict[str, Any]:
        """For whoever waits until the model is loaded."""
        return {}

    def predict(self, number: int) -> dict[str, Any]:
        """The counts of a shard, or why it cannot be done."""
        from estimand.batch.shards import predict_shard

        try:
            return dataclasses.asdict(predict_shard(self._answering, self._job, number))
        except EstimandError as error:
            return {"failure": str(error)}
        except Exception as error:
            return {"failure": f"{type(error).__name__}: {error}"}


def _listen(numbers: queue.SimpleQueue[int]) -> None:
    for line in sys.stdin:
        numbers.put(int(line))
    os._exit(0)


def _say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
