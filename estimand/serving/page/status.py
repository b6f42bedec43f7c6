"""Models, versions, states, counts and latencies, as one document."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimand.serving.lifecycle.manager import Manager
    from estimand.serving.lifecycle.model import Model
    from estimand.serving.metrics import Metrics


def status(manager: Manager, metrics: Metrics, is_ready: bool) -> dict[str, Any]:
    """What the page draws. Counts are since the start: who polls takes the differences."""
    counted = metrics.by_model()
    return {
        "ready": is_ready,
        "seconds": time.monotonic(),  # of the server's clock: rates do not depend on the viewer's
        "uptime": time.time() - metrics.started,
        "bucket_edges": metrics.edges,
        "unknown": counted.get("", {}).get("requests", {}),
        "models": [
            _model(manager.models[name], counted.get(name, {})) for name in sorted(manager.models)
        ],
    }


def _model(model: Model, counted: dict[str, Any]) -> dict[str, Any]:
    versions = sorted(model.versions.values(), key=lambda version: -version.number)
    return {
        "name": model.name,
        "problem": model.problem,
        "versions": [
            {
                "number": str(version.number),  # JavaScript's numbers end at 2 ** 53
                "state": version.state.name,
                "error": version.error.text if version.error else "",
                "labels": sorted(
                    label for label, number in model.labels.items() if number == version.number
                ),
            }
            for version in versions
        ],
        "requests": counted.get("requests", {}),
        "latencies": counted.get("latencies", []),
    }
