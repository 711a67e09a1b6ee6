# SPDX-License-Identifier: MIT
"""Ensembles of tests: GR's by throughput level in steps of 1 Mbit/s, unless a test states other axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text


def ensemble_of(
    rows: tuple[tuple[int, ...], ...],
    *,
    cca: str = "gr",
    columns: tuple[str, ...] = ("delay_threshold_us",),
    axes: tuple[Axis, ...] = (),
    classes_ms: tuple[int, ...] = (100,),
    epoch_ms: int = 2000,
    epsilon_pct: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> Ensemble:
    """Rows state by state, and for each state class by class."""
    return Ensemble(
        cca=cca,
        epoch_ms=epoch_ms,
        estimate_ms=250,
        epsilon_pct=epsilon_pct,
        classes=tuple(DelayClass(95, delay_ms * 1000) for delay_ms in classes_ms),
        axes=axes or (Axis("throughput_bytes_per_s", "linear", 125_000, len(rows) // len(classes_ms)),),
        columns=columns,
        rows=rows,
        provenance=provenance or {},
    )


def like_trained(
    rows: tuple[tuple[int, int, int], ...], *, classes_ms: tuple[int, ...] = (100,), **provenance: Any
) -> Ensemble:
    """An ensemble of GR with the columns, the epoch and the epsilon of those that training makes."""
    columns = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")
    return ensemble_of(
        rows, columns=columns, classes_ms=classes_ms, epoch_ms=30_000, epsilon_pct=25, provenance=provenance
    )


def table_of(ensemble: Ensemble, *, hold_back_permille: int = 0) -> str:
    """The ensemble as /proc takes it."""
    return table_text(ensemble, Deployment("local", "test", 1, hold_back_permille))
