# SPDX-License-Identifier: MIT
"""Epochs of flows from the simulator, of which a fleet's servers draw.

links    a GR flow over a made 4G link; every third link loses packets in bursts
shared   eight CUBIC flows on one link, of which 0 to 8 reduce their window after a loss by 15 instead of 30 %. They
         share the link equally if all have the same value. In a mixture those with 15 % displace the others.

An epoch is a row of the columns of `Sums`: delay samples, those within the target, bytes, busy seconds, sent segments,
retransmitted segments.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emulation import FlowSpec, GilbertElliott, LinkSpec, QoS, Scenario, simulate_many
from emulation.scenario.model import MSS_BYTES
from emulation.traces.synthetic import TraceModel, make_recordings
from serving.rollouts.statistics import Sums

Epochs = NDArray[np.float64]
COLUMNS = tuple(Sums.__slots__)
MODEL = Path(__file__).parents[2] / "configs/traces/cellular-4g.json"
TARGET_US = 50_000.0
N_LINKS, EPOCHS_PER_LINK = 18, 5
N_FLOWS, SHARED_LINKS = 8, 6
_EPOCH_S, _WARMUP_S, _SHARED_S, _SETTLING_S = 12.0, 2.0, 80.0, 20.0


def _row(qos: QoS, flow: int, *, busy_s: float, share: float = 1.0) -> list[float]:
    """Return a flow's epoch. share: of the link's delay samples."""
    found = qos.flows[flow]
    size_bytes = found.goodput_mbps * busy_s * 125_000
    sent = size_bytes / MSS_BYTES / (1 - found.retransmission_rate)
    samples = share * qos.queueing_delay.total
    within = samples * qos.queueing_delay.share_within(TARGET_US)
    return [samples, within, size_bytes, busy_s, sent, sent * found.retransmission_rate]


def link_epochs() -> Epochs:
    """Return epochs of single flows, float [link, epoch, column]."""
    rng = np.random.default_rng(1)
    recordings = make_recordings(
        TraceModel.load(MODEL), duration_s=EPOCHS_PER_LINK * _EPOCH_S + 1, count=N_LINKS, seed=1
    )
    bursts = GilbertElliott(to_bad=0.0005, to_good=0.2, loss_bad=0.5)
    scenarios = [
        Scenario(
            name=f"link {number}", seed=epoch, duration_s=_EPOCH_S, warmup_s=_WARMUP_S, flows=(FlowSpec(cca="gr"),),
            link=LinkSpec(
                trace=recording.trace, start_ms=round(epoch * _EPOCH_S * 1000), rtt_ms=rtt_ms, buffer_pkts=400,
                behind=(bursts,) if number % 3 == 0 else (),
            ),
        )
        for number, recording in enumerate(recordings)
        for rtt_ms in [float(rng.uniform(20, 120))]
        for epoch in range(EPOCHS_PER_LINK)
    ]  # fmt: skip
    rows = [_row(qos, 0, busy_s=_EPOCH_S - _WARMUP_S) for qos in simulate_many(scenarios)]
    return np.array(rows).reshape(N_LINKS, EPOCHS_PER_LINK, len(COLUMNS))


def shared_epochs() -> Epochs:
    """Return the mean epochs of flows on shared links, float [link, treated flows, untreated or treated, column].

    A group without flows has NaN.
    """
    rng = np.random.default_rng(2)
    links = [(float(rng.uniform(20, 50)), float(rng.uniform(20, 60))) for _ in range(SHARED_LINKS)]
    scenarios = [
        Scenario(
            name=f"{treated} of {N_FLOWS}", seed=number, duration_s=_SHARED_S, warmup_s=_SETTLING_S,
            link=LinkSpec(rate_mbps=rate_mbps, rtt_ms=rtt_ms, buffer_pkts=round(rate_mbps * 4)),
            flows=tuple(
                FlowSpec(cca="cubic", params={"beta_permille": 850 if flow < treated else 700}, start_s=0.1 * flow)
                for flow in range(N_FLOWS)
            ),
        )
        for number, (rate_mbps, rtt_ms) in enumerate(links)
        for treated in range(N_FLOWS + 1)
    ]  # fmt: skip
    found = np.full((SHARED_LINKS, N_FLOWS + 1, 2, len(COLUMNS)), np.nan)
    for at, qos in enumerate(simulate_many(scenarios)):
        number, treated = divmod(at, N_FLOWS + 1)
        rows = np.array([_row(qos, flow, busy_s=_SHARED_S - _SETTLING_S, share=1 / N_FLOWS) for flow in range(N_FLOWS)])
        for group, members in enumerate((rows[treated:], rows[:treated])):
            if len(members):
                found[number, treated, group] = members.mean(axis=0)
    return found
