"""Counters and histograms in Prometheus' text format, under TensorFlow Serving's names.

>>> metrics = Metrics()
>>> metrics.request("half", "Predict", "GRPC", 0, 0.000012)
>>> print(metrics.text().splitlines()[1])
:tensorflow:serving:request_count{model_name="half",status="OK"} 1
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Any

from estimand.serving.status import NAMES

_BUCKETS = tuple(10 * 1.8**k for k in range(33))  # microseconds
_PREFIX = ":tensorflow:serving:"


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def add(self, microseconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, microseconds)] += 1
        self.total += microseconds


class Metrics:
    """All of them; used by the event loop only."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._latencies: dict[tuple[str, str, str], _Histogram] = {}
        self._started = time.time()

    def request(self, model: str, api: str, entrypoint: str, code: int, seconds: float) -> None:
        """`model` must be one that exists: each name is kept for ever."""
        counted = (model, code)
        self._counts[counted] = self._counts.get(counted, 0) + 1
        key = (model, api, entrypoint)
        histogram = self._latencies.get(key)
        if histogram is None:
            histogram = self._latencies[key] = _Histogram()
        histogram.add(seconds * 1e6)

    def count(self, model: str, code: int = 0) -> int:
        return self._counts.get((model, code), 0)

    @property
    def started(self) -> float:
        return self._started

    @property
    def edges(self) -> list[float]:
        """Upper ends of the latency buckets in microseconds; the last bucket has none."""
        return list(_BUCKETS)

    def by_model(self) -> dict[str, dict[str, Any]]:
        """The same numbers as plain values: requests by status, latencies by API."""
        found: dict[str, dict[str, Any]] = {}
        for (model, code), count in self._counts.items():
            one = found.setdefault(model, {"requests": {}, "latencies": []})
            one["requests"][NAMES[code]] = count
        for (model, api, entrypoint), histogram in sorted(self._latencies.items()):
            found[model]["latencies"].append(
                {
                    "api": api,
                    "entrypoint": entrypoint,
                    "counts": list(histogram.counts),
                    "total": histogram.total,
                }
            )
        return found

    def text(self) -> str:
        lines = [f"# TYPE {_PREFIX}request_count counter"]
        for (model, code), count in sorted(self._counts.items()):
            labels = f'model_name="{_escape(model)}",status="{NAMES[code]}"'
            lines.append(f"{_PREFIX}request_count{{{labels}}} {count}")
        lines.append(f"# TYPE {_PREFIX}request_latency histogram")
        for (model, api, entrypoint), histogram in sorted(self._latencies.items()):
            labels = f'model_name="{_escape(model)}",API="{api}",entrypoint="{entrypoint}"'
            lines += _histogram_lines(f"{_PREFIX}request_latency", labels, histogram)
        lines.append("# TYPE process_start_time_seconds gauge")
        lines.append(f"process_start_time_seconds {self._started:.3f}")
        return "\n".join(lines) + "\n"


def _histogram_lines(name: str, labels: str, histogram: _Histogram) -> list[str]:
    lines = []
    so_far = 0
    for bound, count in zip((*_BUCKETS, None), histogram.counts, strict=True):
        so_far += count
        edge = "+Inf" if bound is None else f"{bound:.6g}"
        lines.append(f'{name}_bucket{{{labels},le="{edge}"}} {so_far}')
    lines.append(f"{name}_sum{{{labels}}} {histogram.total:.6g}")
    lines.append(f"{name}_count{{{labels}}} {so_far}")
    return lines


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
