"""What the router of the REST port does itself."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from estimand.serving.flags import Flags
from estimand.serving.metrics import Metrics
from estimand.serving.rest.api import Api
from estimand.serving.rest.routes import Route


def models(**more: Any) -> Any:
    return SimpleNamespace(models={}, requests=None, is_ready=True, **more)


def test_metadata_is_written_once_for_a_version() -> None:
    read: list[None] = []

    class Servable:
        @property
        def signature_defs(self) -> dict[str, Any]:
            read.append(None)
            return {}

    version = SimpleNamespace(name="m", number=3, servable=Servable(), metadata_json=None)
    manager = models(find_for=lambda _: version)
    api = Api(manager, Metrics(), Flags(), lambda: True)
    answers = {api._describe(Route("m", None, None, "metadata")) for _ in range(3)}
    assert [json.loads(answer)["model_spec"]["version"] for answer in answers] == ["3"]
    assert len(read) == 1


def test_other_workers_are_asked_only_where_counts_are_told() -> None:
    asked: list[str] = []

    def counts_are_told_at(path: str) -> bool:
        async def refresh() -> None:
            asked.append(path)

        api = Api(models(), Metrics(), Flags(), lambda: True, refresh=refresh)
        exchange: Any = SimpleNamespace(answer=lambda *_: None, fail=lambda error: 1 / 0)
        asyncio.run(api._answer_other(exchange, path, b""))
        return path in asked

    told = ["/monitoring/status.json", "/monitoring/prometheus/metrics"]
    others = ["/", "/favicon.ico", "/monitoring"]
    assert [path for path in told + others if counts_are_told_at(path)] == told
