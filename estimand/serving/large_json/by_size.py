"""Three processes: what is quickly done does not wait for what takes long, nor what is large as it
comes for what only becomes so.

A few hundred bytes of gzip can become work for seconds. Whoever sends such bodies keeps those
waiting who send such bodies, and nobody else.
"""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from estimand.serving.flags import Flags
from estimand.serving.large_json.queue import LargeJson
from estimand.serving.large_json.work import Budget, OverBudget, Reading, Writing, inflated

MODERATE = 2**20  # bytes of JSON, or of arrays: some hundredths of a second


class JsonBySize:
    """Lives in the event loop."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._moderate = LargeJson(budget)
        self._large = LargeJson(budget)
        self._zipped = LargeJson(budget)  # and large
        self._inflating = ThreadPoolExecutor(1, "estimand-inflate")

    @classmethod
    def of(cls, flags: Flags) -> JsonBySize:
        return cls(Budget(flags.rest_api_max_body_bytes, flags.rest_api_max_values))

    async def run(self, job: Reading | Writing, body: Any, deadline: float, reply: Any) -> Any:
        """`deadline` is a time of the event loop; `reply` knows who waits, and whether anybody."""
        size = job.size(body)
        if isinstance(job, Reading) and job.zipped and size <= MODERATE:
            job, body = await self._unzipped(job, body)
            size = len(body)
        if isinstance(job, Reading) and job.zipped:
            queue = self._zipped
        else:
            queue = self._moderate if size <= MODERATE else self._large
        return await queue.run(job, body, deadline, reply.client, lambda: reply.gone)

    async def _unzipped(self, job: Reading, body: Any) -> tuple[Reading, Any]:
        """As they are, if they would become more than moderate."""
        most = min(MODERATE, self.budget.inflated_bytes)
        loop = asyncio.get_running_loop()
        try:
            plain = await loop.run_in_executor(self._inflating, inflated, body, most)
        except OverBudget:
            return job, body
        return dataclasses.replace(job, zipped=False), plain

    def stop(self) -> None:
        for queue in (self._moderate, self._large, self._zipped):
            queue.stop()
        self._inflating.shutdown(wait=False, cancel_futures=True)
