# SPDX-License-Identifier: MIT
"""The algorithms among which advice chooses: their settings, and what is known of each beside its figures.

GR follows a table of one row, from which each flow tracks the target by itself (kmod/core/tracking.h). The best rows of
the study gr.yaml, which was learnt over drawn cellular paths, have a delay threshold of 0.80 of the target, at targets
of 50, 100 and 200 ms alike, and windows of 46 to 58 ms. With one share and one window for all targets the used share
and the delay are the same to 0.2 points and 3 ms, over cellular and Wi-Fi paths. All other algorithms have their
defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from emulation.run.measures import Trial
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text

PERCENTILE = 95
ROW = {"bandwidth_window_us": 55_000, "adaptation_interval_us": 6500}
THRESHOLD_SHARE = 0.8  # of the target
TRACKING = {"tracking_gain_permille": 1000}
EPOCH_MS, ESTIMATE_MS, EPSILON_PCT = 30_000, 250, 25  # of the studies
LEAST_TARGET_MS, MOST_TARGET_MS = 10.0, 2000.0

KERNELS, OURS = range(2)


@dataclass(frozen=True)
class Candidate:
    """An algorithm with its settings.

    name: of the algorithm. label: for people. host: KERNELS, where every Linux has it, or OURS, where ccatune
    brings it. target_ms: of the table that its flows follow; None: no table.
    """

    name: str
    label: str
    host: int
    target_ms: float | None = None

    @property
    def is_validated(self) -> bool:
        """Whether its simulation was compared with a kernel."""
        return "bbr3" not in self.name

    @property
    def with_settings(self) -> str:
        """For a sentence, e.g. `GR with a target of 100 ms`."""
        name = self.label.partition(" at ")[0]
        return name if self.target_ms is None else f"{name} with a target of {self.target_ms:g} ms"

    @cached_property
    def table(self) -> Ensemble | None:
        """The table of one row that its flows follow."""
        if self.target_ms is None:
            return None
        values = row_of(self.target_ms)
        classes = (DelayClass(PERCENTILE, round(self.target_ms * 1000)),)
        axis = Axis("throughput_bytes_per_s", "linear", 125_000, 1)
        return Ensemble(self.name, EPOCH_MS, ESTIMATE_MS, EPSILON_PCT, classes, (axis,), tuple(values),
                        (tuple(values.values()),), {"made_by": "ccatune advise"})  # fmt: skip

    def table_text(self, serial: int) -> str:
        """The table as the kernel takes it; "" without one. serial: at least 1; a later table needs a larger one."""
        return "" if self.table is None else table_text(self.table, Deployment("advise", "local", serial))

    @cached_property
    def trial(self) -> Trial:
        """The same for the simulator."""
        return Trial(self.name, ensemble_text=self.table_text(1) or None)


def row_of(target_ms: float) -> dict[str, int]:
    """The row of GR for a target, with values within their ranges."""
    spec = ALGORITHMS["gr"].param("delay_threshold_us")
    threshold_us = min(max(round(THRESHOLD_SHARE * target_ms * 1000), spec.minimum), spec.maximum)
    return {**ROW, spec.name: threshold_us, **TRACKING}


def candidates_of(target_ms: float) -> list[Candidate]:
    """All of them, those that need the least change first."""
    return [
        Candidate("cubic", "CUBIC", KERNELS),
        Candidate("bbr", "BBRv1", KERNELS),
        Candidate("gr", f"GR at {target_ms:g} ms", OURS, target_ms),
        Candidate("roccet", "ROCCET", OURS),
        Candidate("rtcp_cubic", "R-TCP over CUBIC", OURS),
        Candidate("rtcp_bbr", "R-TCP over BBRv1", OURS),
        Candidate("bbr3", "BBRv3", OURS),
        Candidate("rtcp_bbr3", "R-TCP over BBRv3", OURS),
    ]
