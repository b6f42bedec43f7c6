"""Counters and histograms in Prometheus' text format, under TensorFlow Serving's names.

>>> metrics = Metrics()
>>> metrics.request("half", "Predict", "GRPC", 0, 0.000012)
>>> print(metrics.text().splitlines()[1])
:tensorflow:serving:request_count{model_name="half",status="OK"} 1
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from estimand.serving.status import NAMES

_BUCKETS = tuple(10 * 1.8**k for k in range(33))  # microseconds
_PREFIX = ":tensorflow:serving:"


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0


class Metrics:
    """All of them; used by the event loop only."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._latencies: dict[tuple[str, str, str], _Histogram] = {}
        self._logged: dict[tuple[str, int], int] = {}
        self._started = time.time()
        self.others: dict[str, Any] | None = None  # state of other processes, to be added

    def request(self, model: str, api: str, entrypoint: str, code: int, seconds: float) -> None:
        """`model` must be one that exists: each name is kept for ever."""
        counted = (model, code)
        self._counts[counted] = self._counts.get(counted, 0) + 1
        key = (model, api, entrypoint)
        histogram = self._latencies.get(key)
        if histogram is None:
            histogram = self._latencies[key] = _Histogram()
        microseconds = seconds * 1e6
        histogram.counts[bisect_left(_BUCKETS, microseconds)] += 1
        histogram.total += microseconds

    def logged(self, model: str, code: int) -> None:
        """A request was written to the log, or was to be."""
        self._logged[model, code] = self._logged.get((model, code), 0) + 1

    def state(self) -> dict[str, Any]:
        """What was counted here, as plain values."""
        return {
            "started": self._started,
            "counts": [[*key, count] for key, count in self._counts.items()],
            "logged": [[*key, count] for key, count in self._logged.items()],
            "latencies": [[*key, h.counts, h.total] for key, h in self._latencies.items()],
        }

    def _with_others(self) -> Metrics:
        """Itself, or the sum with the other processes."""
        return _sum([self.state(), self.others]) if self.others else self

    def count(self, model: str, code: int = 0) -> int:
        return self._counts.get((model, code), 0)

    @property
    def started(self) -> float:
        """When the first of all processes began."""
        return self._with_others()._started

    @property
    def edges(self) -> list[float]:
        """Upper ends of the latency buckets in microseconds; the last bucket has none."""
        return list(_BUCKETS)

    def by_model(self) -> dict[str, dict[str, Any]]:
        """The same numbers as plain values: requests by status, latencies by API."""
        numbers: dict[str, dict[str, Any]] = {}
        everywhere = self._with_others()
        for (model, code), count in everywhere._counts.items():
            of_model = numbers.setdefault(model, {"requests": {}, "latencies": []})
            of_model["requests"][NAMES[code]] = count
        for (model, api, entrypoint), histogram in sorted(everywhere._latencies.items()):
            numbers[model]["latencies"].append(
                {
                    "api": api,
                    "entrypoint": entrypoint,
                    "counts": list(histogram.counts),
                    "total": histogram.total,
                }
            )
        return numbers

    def text(self) -> str:
        everywhere = self._with_others()
        lines = [f"# TYPE {_PREFIX}request_count counter"]
        for (model, code), count in sorted(everywhere._counts.items()):
            labels = f'model_name="{_escape(model)}",status="{NAMES[code]}"'
            lines.append(f"{_PREFIX}request_count{{{labels}}} {count}")
        lines.append(f"# TYPE {_PREFIX}request_latency histogram")
        for (model, api, entrypoint), histogram in sorted(everywhere._latencies.items()):
            labels = f'model_name="{_escape(model)}",API="{api}",entrypoint="{entrypoint}"'
            lines += _histogram_lines(f"{_PREFIX}request_latency", labels, histogram)
        if everywhere._logged:
            lines.append(f"# TYPE {_PREFIX}request_log_count counter")
        for (model, code), count in sorted(everywhere._logged.items()):
            labels = f'model_name="{_escape(model)}",status="{NAMES[code]}"'
            lines.append(f"{_PREFIX}request_log_count{{{labels}}} {count}")
        lines.append("# TYPE process_start_time_seconds gauge")
        lines.append(f"process_start_time_seconds {everywhere._started:.3f}")
        return "\n".join(lines) + "\n"


def sum_of_states(states: Iterable[Any]) -> dict[str, Any]:
    """One state of several.

    >>> one, other = Metrics(), Metrics()
    >>> one.request("half", "Predict", "GRPC", 0, 0.000012)
    >>> other.request("half", "Predict", "GRPC", 0, 0.000012)
    >>> sum_of_states([one.state(), other.state()])["counts"]
    [['half', 0, 2]]
    """
    return _sum(states).state()


def _sum(states: Iterable[Any]) -> Metrics:
    total = Metrics()
    for state in states:
        total._started = min(total._started, state["started"])
        for name, into in (("counts", total._counts), ("logged", total._logged)):
            for model, code, count in state[name]:
                into[model, code] = into.get((model, code), 0) + count
        for model, api, entrypoint, counts, seconds in state["latencies"]:
            histogram = total._latencies.setdefault((model, api, entrypoint), _Histogram())
            histogram.counts = [a + b for a, b in zip(histogram.counts, counts, strict=True)]
            histogram.total += seconds
    return total


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
