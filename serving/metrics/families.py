# SPDX-License-Identifier: MIT
"""Makes families of figures from rows of labels and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

Labels = tuple[str, ...]


def gauge(name: str, said: str, value: float | Mapping[Any, float] | None, *labels: str) -> GaugeMetricFamily:
    """Return a gauge. value: the only one, or that of each combination of the labels; None for no value."""
    family = GaugeMetricFamily(f"ccatune_{name}", said, labels=labels)
    for names, one in _rows(value):
        family.add_metric(names, one)
    return family


def counter(name: str, said: str, value: float | Mapping[Any, float] | None, *labels: str) -> CounterMetricFamily:
    """Return a counter, whose name gets the ending `_total`."""
    family = CounterMetricFamily(f"ccatune_{name}", said, labels=labels)
    for names, one in _rows(value):
        family.add_metric(names, one)
    return family


def _rows(value: float | Mapping[Any, float] | None) -> Iterable[tuple[Sequence[str], float]]:
    if value is None:
        return []
    return value.items() if isinstance(value, Mapping) else [((), value)]
