# SPDX-License-Identifier: MIT
"""The flow that an observer at the sender would see of a simulated run, whose link is known exactly.

Experiments and tests compare what is found in such flows with the scenario. The engine samples the run every ms; the
rows here are computed from these samples:

    delivered   packets that passed the link and all elements behind it, held until ACKs leave, plus the way back
    lost        transmissions that were retransmitted; the simulator retransmits when it takes a packet for lost
    rtt         a capture: of the latest ACK. samples: smoothed (RFC 6298), and the least one where that fell, as the
                readers of logs have it

Limits: one flow; delayed ACKs, uplinks of ACKs and proxies are left out, so that ACK times are up to some ms early.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emulation.run.simulator import simulate
from emulation.scenario.model import MSS_BYTES, Scenario
from training.errors import TrainingError
from training.observed.flow import STEP, Flow, Limit

_EVERY_S = 1e-3
_WIRE_BYTES = 1500


def observed_run(scenario: Scenario, *, sample_s: float | None = None) -> Flow:
    """Run a scenario of one flow, and return what its sender saw.

    sample_s: time between two rows; None: a row an ACK, as in a capture.

    Raises TrainingError for several flows.
    """
    if len(scenario.flows) != 1:
        raise TrainingError(f"{scenario.name}: expected one flow, got {len(scenario.flows)}")
    qos = simulate(scenario.model_copy(update={"warmup_s": 0.0}), series_every_s=_EVERY_S)
    assert qos.element_series is not None  # noqa: S101 (a series was requested)
    series, elements = qos.series, qos.element_series
    times_s = series["time_s"]
    passed_pkts = np.cumsum(np.round(series["rate_mbps"] * _EVERY_S / (_WIRE_BYTES * 8e-6)))
    at_link = [element.name for element in qos.elements].index("link")
    inside, dropped = (column[:, at_link + 1 :].sum(axis=1) for column in (elements.inside, elements.dropped))
    behind_pkts = inside + np.cumsum(dropped)
    delivered = _as_acknowledged(scenario, times_s, passed_pkts - behind_pkts)
    waiting = elements.inside[:, : at_link + 1].sum(axis=1)
    in_flight = np.maximum(passed_pkts + waiting - delivered, 0)
    rows = np.zeros(len(times_s), STEP)
    rows["time_us"] = np.round(times_s * 1e6)
    rows["delivered_bytes"] = delivered * MSS_BYTES
    rows["lost_pkts"] = np.cumsum(series["retransmitted_pkts"])
    rows["rtt_us"] = np.round(series["rtt_ms" if sample_s is None else "smoothed_rtt_ms"] * 1000)
    rows["inflight_bytes"] = in_flight * MSS_BYTES
    rows["limit"] = _limits(scenario, times_s, in_flight, [(t.start_s, t.complete_s) for t in qos.flows[0].transfers])
    rows = _at_acks(rows) if sample_s is None else _samples(rows, series["rtt_ms"], round(sample_s / _EVERY_S))
    starts_us = [round(t.start_s * 1e6) for t in qos.flows[0].transfers] or [0]
    return Flow(
        name="simulated:1",
        source=scenario.name,
        kind="capture" if sample_s is None else "observe",
        steps=rows,
        transfers_us=np.array([0, *starts_us[1:]], np.int64),
        algorithm=scenario.flows[0].cca,
        mss_bytes=MSS_BYTES,
    )


def _as_acknowledged(
    scenario: Scenario, times_s: NDArray[np.float64], received_pkts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The packets that were acknowledged by these times, of those that had been received."""
    link = scenario.link
    leaves_s = times_s
    if link.acks.interval_ms is not None:
        tick_s = link.acks.interval_ms / 1000
        leaves_s = np.ceil(times_s / tick_s - 1e-9) * tick_s
    back_s = np.full_like(times_s, link.rtt_ms / 1000)
    if link.delays is not None:
        steps = link.delays.steps
        index = np.searchsorted([step.at_s for step in steps], leaves_s, side="right") - 1
        back_s = np.array([step.rtt_ms / 2000 for step in steps])[index]
    arrives_s = np.maximum.accumulate(leaves_s + back_s)
    return np.append(0.0, received_pkts)[np.searchsorted(arrives_s, times_s + 1e-9, side="right")]


def _limits(
    scenario: Scenario, times_s: NDArray[np.float64], in_flight: NDArray[np.float64],
    transfers_s: list[tuple[float, float | None]],
) -> NDArray[np.uint8]:  # fmt: skip
    limits = np.full(len(times_s), Limit.NETWORK, np.uint8)
    receiver = scenario.flows[0].receiver
    if receiver.window_bytes is not None:
        limits[in_flight >= receiver.window_pkts - 2] = Limit.RECEIVER
    if transfers_s:
        busy = np.zeros(len(times_s), np.bool_)
        for start_s, complete_s in transfers_s:
            busy |= (times_s > start_s) & (times_s <= (np.inf if complete_s is None else complete_s))
        limits[~busy] = Limit.APPLICATION
    return limits


def _samples(rows: NDArray[np.void], rtts_ms: NDArray[np.float64], every: int) -> NDArray[np.void]:
    """One in so many rows."""
    least_us = np.minimum.accumulate(np.where(rtts_ms > 0, np.round(rtts_ms * 1000), 2**31))[every - 1 :: every]
    rows = rows[every - 1 :: every]
    fell = (np.diff(least_us, prepend=2**31) < 0) & (least_us < 2**31)
    rows["rtt_us"][fell] = least_us[fell]
    return rows


def _at_acks(rows: NDArray[np.void]) -> NDArray[np.void]:
    """The rows with news. A row without a delivery has no RTT."""
    delivers = np.diff(rows["delivered_bytes"].astype(np.int64), prepend=0) > 0
    rows["rtt_us"][~delivers] = 0
    loses = np.diff(rows["lost_pkts"].astype(np.int64), prepend=0) > 0
    kept = delivers | loses
    kept[0] = True
    # A row's limit is that of most of the time since the row before.
    idle_ms = np.cumsum(rows["limit"] == Limit.APPLICATION)[kept]
    rows = rows[kept]
    since_ms = np.diff(rows["time_us"].astype(np.int64), prepend=0) / 1000
    rows["limit"][np.diff(idle_ms, prepend=0) > since_ms / 2] = Limit.APPLICATION
    return rows
