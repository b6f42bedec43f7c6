"""A process that works on shards: `python -m estimand.batch.worker OUTPUT WHAT_IT_IS_TOLD`.

It is told numbers of shards on its standard input, a line each, and answers with a line of JSON.
When its standard input ends, nobody waits for it any more, and it ends at once, in the middle of a
shard too: whoever started it may have been killed.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from estimand.core.errors import EstimandError

if TYPE_CHECKING:
    from estimand.batch.plan import Task


def main(arguments: list[str]) -> None:
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(numbers,), daemon=True).start()
    # What a model prints is not taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    output, told = arguments
    worker = Worker(output, json.loads(told))
    _say(answers, {"ready": True})
    while True:
        _say(answers, worker.do(numbers.get()))


class Worker:
    """At work on a job: what it needs is loaded."""

    def __init__(self, output: str, told: dict[str, Any]) -> None:
        from estimand.batch.plan import known_of, load_job

        known = known_of(output)
        assert known is not None, f"no job was begun in {output}"
        self._job = load_job(output, _task(known, told), known)
        self._work = self._job.task.work(self._job.shards[0].format)

    def begun(self) -> dict[str, Any]:
        """For whoever waits until it is."""
        return {}

    def do(self, number: int) -> dict[str, Any]:
        """The counts of a shard, or why it cannot be done."""
        from estimand.batch.shards import do_shard

        try:
            return do_shard(self._work, self._job, number)
        except EstimandError as error:
            return {"failure": str(error)}
        except Exception as error:
            return {"failure": f"{type(error).__name__}: {error}"}


def _task(known: dict[str, Any], told: dict[str, Any]) -> Task:
    if known.get("task", "predict") == "predict":
        from estimand.batch.predict_task import PredictTask

        return PredictTask.of_plan(known, told)
    from estimand.batch.records_task import RecordsTask

    return RecordsTask.of_plan(known)


def _listen(numbers: queue.SimpleQueue[int]) -> None:
    for line in sys.stdin:
        numbers.put(int(line))
    os._exit(0)


def _say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
