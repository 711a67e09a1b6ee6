# SPDX-License-Identifier: MIT
"""The ensemble in the examples of the API's documentation: the smallest one that the registry accepts."""

from __future__ import annotations

from typing import Any, Final

from kmod.ensemble import Axis, DelayClass, Ensemble

__all__ = ["EXAMPLE_DIGEST", "EXAMPLE_DOCUMENT"]

_ENSEMBLE = Ensemble(
    cca="gr",
    epoch_ms=30_000,
    estimate_ms=250,
    epsilon_pct=25,
    classes=(DelayClass(95, 100_000),),
    axes=(Axis("throughput_bytes_per_s", "linear", 125_000, 1),),
    columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
    rows=((60_000, 3_000, 12_000),),
    provenance={},
)

EXAMPLE_DOCUMENT: Final[dict[str, Any]] = _ENSEMBLE.to_json()
EXAMPLE_DIGEST: Final = _ENSEMBLE.digest
