"""A server without sockets: its manager with some models, and an event loop to run it in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

from estimand.serving.flags import Flags
from estimand.serving.lifecycle.config import ModelSettings
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.metrics import Metrics
from tests.serving import making

T = TypeVar("T")
_LOGGERS = ("estimand.serving", "asyncio")
_PATIENCE = 60.0  # seconds for a request to end
_MODELS = {
    "half_plus_two": lambda directory: making.write_half_plus(directory, 2.0),
    "two_inputs": making.write_two_inputs,
    "two_heads": making.write_two_heads,
    "types": making.write_types,
    "bytes": making.write_bytes,
    "sparse": making.write_sparse,
}


def write_models(base: Path) -> None:
    for name, write in _MODELS.items():
        if not (base / name).exists():
            (base / name).mkdir(parents=True)
            write(base / name / "1")


class Finding(Exception):
    """An input did what none may do."""


class Errors(logging.Handler):
    """What the server would have written into its log as its own fault."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class World:
    """`base` has the models that `write_models` writes, and maybe others."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.loop = asyncio.new_event_loop()
        self.metrics = Metrics()
        self.flags = Flags(
            model_base_path=str(self.base),
            file_system_poll_wait_seconds=0,
            rest_api_port=1,
            rest_api_max_body_bytes=2**20,
            max_request_bytes=2**20,
        )
        self.errors = Errors()
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self.errors)
        self.manager: Manager = self.run(self._start())

    async def _start(self) -> Manager:
        manager = Manager(self.flags)
        manager.start({name: ModelSettings(name, str(self.base / name)) for name in _MODELS})
        await manager.first
        for _ in range(manager.cpus):  # its threads are no test's
            manager.running.pool.submit(time.sleep, 0.05)
        return manager

    def run(self, awaitable: Awaitable[T]) -> T:
        return self.loop.run_until_complete(awaitable)

    def settle(self) -> None:
        """Let everything end that was begun."""

        async def settled() -> None:
            known = {asyncio.current_task(), *self.manager._tasks}
            for _ in range(2):
                await asyncio.sleep(0)
            while others := asyncio.all_tasks() - known:
                if not (await asyncio.wait(others, timeout=_PATIENCE))[0]:
                    raise Finding(f"{others} do not end")

        self.run(settled())

    def check_log(self) -> None:
        if self.errors.seen:
            seen, self.errors.seen = self.errors.seen, []
            raise Finding(f"the log has: {seen[0][:2000]}")

    def close(self) -> None:
        self.run(self.manager.stop())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self.errors)


class Transport:
    """Keeps what is written, as much as is looked at."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_protocol(self) -> Any:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading
