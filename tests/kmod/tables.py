# SPDX-License-Identifier: MIT
"""Ensembles for tests: one that is written out, and hypothesis strategies for every other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble

AXIS = "throughput_bytes_per_s"
COLUMNS = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")
NAMES = st.text("ABCXYZabcxyz0189._-", min_size=1, max_size=63)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def small(**changes: Any) -> Ensemble:
    """Two levels by two classes of GR, with changes to its fields."""
    fields: dict[str, Any] = {
        "cca": "gr",
        "epoch_ms": 30000,
        "estimate_ms": 250,
        "epsilon_pct": 25,
        "classes": (DelayClass(95, 50000), DelayClass(95, 100000)),
        "axes": (Axis(AXIS, "linear", 125000, 2),),
        "columns": COLUMNS,
        "rows": ((60000, 3000, 12000), (60000, 3000, 25000), (50000, 2000, 12000), (40000, 1000, 25000)),
        "provenance": {"traces": ["a", "b"], "seed": 1},
    }
    return Ensemble(**{**fields, **changes})


@st.composite
def axes(draw: st.DrawFn, *, most_levels: int = 64) -> Axis:
    """An axis of GR, of either scale."""
    scale = draw(st.sampled_from(["linear", "log"]))
    per_octave = draw(st.integers(1, 64)) if scale == "log" else 0
    step, count = draw(st.integers(1, 2**32 - 1)), draw(st.integers(1, most_levels))
    return Axis(AXIS, "log" if scale == "log" else "linear", step, count, per_octave)


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    """Any ensemble of GR with up to five levels, with or without classes."""
    specs = {spec.name: spec for spec in ALGORITHMS["gr"].tuned}
    columns = tuple(draw(st.lists(st.sampled_from(sorted(specs)), min_size=1, unique=True)))
    axis = draw(axes(most_levels=5))
    classes = draw(st.lists(st.builds(DelayClass, st.integers(1, 99), st.integers(1, 60_000_000)), max_size=8))
    row = st.tuples(*(st.integers(specs[name].minimum, specs[name].maximum) for name in columns))
    n_rows = axis.count * max(len(classes), 1)
    epoch_ms = draw(st.integers(1, 3_600_000))
    return Ensemble(
        cca="gr",
        epoch_ms=epoch_ms,
        estimate_ms=draw(st.integers(1, epoch_ms)),
        epsilon_pct=draw(st.integers(0, 1000)) if classes else None,
        classes=tuple(classes),
        axes=(axis,),
        columns=columns,
        rows=tuple(draw(st.lists(row, min_size=n_rows, max_size=n_rows))),
        provenance=draw(st.dictionaries(st.text(), JSON_VALUES, max_size=3)),
    )


deployments = st.builds(
    Deployment,
    registry=NAMES,
    channel=NAMES,
    serial=st.integers(1, 2**63 - 1),
    hold_back_permille=st.integers(0, 1000),
    urgent=st.booleans(),
)
