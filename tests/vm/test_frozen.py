# SPDX-License-Identifier: MIT
"""The frozen window on a real kernel (ROCCET 2025, section III): CUBIC keeps one that is too large, ROCCET leaves it.

As in the simulator's report (docs/roccet.md), with its bounds: 50 Mbit/s for 60 s, on both kernel lines. Run by the
campaign `vm` alone (CCATUNE_VM_LONG=1).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from emulation.scenario.files import load_scenario
from emulation.scenario.model import Scenario
from emulation.vm import PROVED_LINES
from tests.vm import boot
from tests.vm.boot import result_of
from tests.vm.job import job
from tests.vm.lines import LONG
from tests.vm.subjects import ROCCET

# Not of the tier: in the tier they would be left out, which it does not allow.
pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

SECONDS, LAST_S = 60, 50
SEGMENT_BYTES = 1500
Samples = dict[str, NDArray[np.float64]]


def scenario() -> Scenario:
    """The scenario that the report runs in the simulator."""
    return load_scenario(boot.REPOSITORY / "configs" / "scenarios" / "roccet-frozen.yaml")


def path_of(described: Scenario) -> dict[str, Any]:
    """What the guest's program needs of it; a kernel offers half of its receive buffer."""
    link, window_bytes = described.link, described.flows[0].receiver.window_bytes
    assert link.rate_mbps is not None
    assert link.buffer_pkts is not None
    assert window_bytes is not None
    return {
        "rate_mbps": link.rate_mbps,
        "rtt_ms": link.rtt_ms,
        "queue_bytes": link.buffer_pkts * SEGMENT_BYTES,
        "receive_buffer_bytes": 2 * window_bytes,
        "seconds": SECONDS,
    }


@pytest.fixture(scope="module", params=PROVED_LINES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Samples]:
    """The samples of each algorithm, by name of what was sampled; by the guest's own clock."""
    folder: Path = tmp_path_factory.mktemp(f"frozen-{request.param}")
    told = {**job(folder, long=LONG), "frozen": path_of(scenario())}
    name = f"frozen:{ROCCET.cca}"
    outcomes = boot.run_programs(request.param, [name], told, folder=folder, timeout_s=3600, own_clock=True)
    lines = result_of(outcomes, "frozen", ROCCET)
    assert outcomes[name].complaints == []
    return {cca: {key: np.array([one[key] for one in rows]) for key in rows[0]} for cca, rows in lines.items()}


def bdp_pkts() -> float:
    """What the path holds without a queue."""
    link = scenario().link
    assert link.rate_mbps is not None
    return link.rate_mbps * link.rtt_ms * 1000 / 8 / SEGMENT_BYTES


def last(samples: Samples, name: str) -> NDArray[np.float64]:
    """The samples of the last LAST_S seconds."""
    return samples[name][samples["at_s"] > samples["at_s"][-1] - LAST_S]


def goodput_mbps(samples: Samples) -> float:
    """Of the last LAST_S seconds."""
    at_s, acked = last(samples, "at_s"), last(samples, "acked_bytes")
    return float((acked[-1] - acked[0]) * 8e-6 / (at_s[-1] - at_s[0]))


if LONG:

    def test_cubics_window_is_frozen_at_a_value_that_is_too_high(found: dict[str, Samples]) -> None:
        windows = last(found["cubic"], "cwnd_pkts")
        assert windows.max() <= 1.01 * windows.min()
        assert windows.min() > 3 * bdp_pkts()
        assert found["cubic"]["total_retrans_pkts"][-1] == 0
        assert statistics.median(last(found["cubic"], "rtt_us")) > 3 * found["cubic"]["min_rtt_us"].min()

    def test_roccet_leaves_the_locked_window_at_no_less_goodput(found: dict[str, Samples]) -> None:
        cubic, roccet = found["cubic"], found["roccet"]
        assert statistics.median(last(roccet, "cwnd_pkts")) < 2.5 * bdp_pkts()
        assert statistics.median(last(roccet, "rtt_us")) < statistics.median(last(cubic, "rtt_us")) / 2
        assert goodput_mbps(roccet) > 0.95 * goodput_mbps(cubic)
