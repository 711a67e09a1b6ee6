# SPDX-License-Identifier: MIT
"""Counts requests and their durations.

    ccatune_http_requests_total{method, route, status}            all answers; status is the class, such as 2xx
    ccatune_http_request_duration_seconds{method, route, status}  all but those that are held on purpose
    ccatune_http_poll_duration_seconds{route, status}             long polls, and the events of pages

Almost all requests are the polls and reports of agents. Their counters are bound before the first request, and an
answer costs an index, a bisection and two additions. Everything runs in the event loop, so nothing is locked.

The number of series is bounded by the operations of the API: a path that no route has, and a request that was refused
before it had a route, are counted under the route `none`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.types import Scope

from serving.http.access_log import AccessLog

CHANNEL_ROUTE: Final = "/v1/channels/{cca}/{name}"
REPORT_ROUTE: Final = "/v1/agents/{agent_id}/reports"
FIGURE_KEY: Final = "ccatune_figure"

_EVENTS_ROUTE = "/ui/events"
_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_POLL_BOUNDS_S = (0.1, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0)
_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")


class _Durations:
    """A histogram: the number of durations up to each bound, those above all of them, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self, n_bounds: int) -> None:
        self.counts = [0] * (n_bounds + 1)
        self.sum_s = 0.0


class Operation:
    """The durations of one operation, by class of status."""

    __slots__ = ("bounds_s", "by_class", "is_poll", "method", "route")

    def __init__(self, method: str, route: str, *, is_poll: bool = False) -> None:
        self.method, self.route, self.is_poll = method, route, is_poll
        self.bounds_s = _POLL_BOUNDS_S if is_poll else _REQUEST_BOUNDS_S
        self.by_class = [_Durations(len(self.bounds_s)) for _ in _CLASSES]

    def count(self, status: int, duration_s: float) -> None:
        """Count an answer."""
        one = self.by_class[status // 100 - 1]
        one.counts[bisect_left(self.bounds_s, duration_s)] += 1
        one.sum_s += duration_s

    def used(self) -> Iterator[tuple[str, list[tuple[str, float]], float]]:
        """Give each class of status that was answered, with the cumulative buckets and the sum."""
        for name, one in zip(_CLASSES, self.by_class, strict=True):
            total, buckets = 0, []
            for bound, count in zip((*map(str, self.bounds_s), "+Inf"), one.counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            if total:
                yield name, buckets, one.sum_s


class RequestFigures(Collector):
    """The figures of one registry's requests.

    poll, offer, report: bound before the first request, for `Shortcut`.
    """

    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self.poll = Operation("GET", CHANNEL_ROUTE, is_poll=True)
        self.offer = Operation("GET", CHANNEL_ROUTE)
        self.report = Operation("POST", REPORT_ROUTE)
        self._operations = {(one.method, one.route): one for one in (self.offer, self.report)}

    def answered(self, scope: Scope, status: int, duration_s: float) -> None:
        """Count an answer, and log it if it is to be logged."""
        operation: Operation = scope["state"].get(FIGURE_KEY) or self._operation_of(scope)
        operation.count(status, duration_s)
        if self._log.wants(status, 0.0 if operation.is_poll else duration_s):
            self._log.write(scope, status, duration_s, is_poll=operation.is_poll)

    def _operation_of(self, scope: Scope) -> Operation:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", None) or _NO_ROUTE
        if route == CHANNEL_ROUTE and b"wait=" in scope["query_string"]:
            return self.poll
        operation = self._operations.get((method, route))
        if operation is None:
            operation = Operation(method, route, is_poll=route == _EVENTS_ROUTE)
            self._operations[method, route] = operation
        return operation

    def collect(self) -> Iterable[Metric]:
        """Give the figures."""
        labels = ("method", "route", "status")
        requests = CounterMetricFamily("ccatune_http_requests", "Answered requests.", labels=labels)
        durations = HistogramMetricFamily(
            "ccatune_http_request_duration_seconds", "Time to answer a request that is no long poll.", labels=labels
        )
        polls = HistogramMetricFamily(
            "ccatune_http_poll_duration_seconds", "Time for which a long poll was held.", labels=("route", "status")
        )
        # The event loop may add an operation meanwhile.
        counts: dict[tuple[str, str, str], float] = {}
        for operation in (self.poll, *list(self._operations.values())):
            for status, buckets, sum_s in operation.used():
                names = (operation.method, operation.route, status)
                counts[names] = counts.get(names, 0.0) + buckets[-1][1]
                if operation.is_poll:
                    polls.add_metric([operation.route, status], buckets, sum_s)
                else:
                    durations.add_metric(names, buckets, sum_s)
        for names, count in counts.items():
            requests.add_metric(names, count)
        return requests, durations, polls
