# SPDX-License-Identifier: MIT
"""PD, the loss-based policer detector of Flach et al. 2016, applied to a sender's trace of one flow.

    t0, t1       when the first and the last lost packet were sent
    rate         packets that passed between t0 and t1, over t1 - t0
    tokens(t)    rate (t - t0) - packets that passed since t0: the level of a bucket that was empty at t0

    policed: at least LEAST_LOST lost, and
             mean and median of tokens at losses below those at packets that passed, and
             at all but MOST_STRAY_LOST of the losses   |tokens| <= EMPTY_PKTS, and
             at all but MOST_STRAY_PASSED of the others  tokens >= 0, and
             median RTT at losses <= MOST_QUEUED times the lowest RTT

A policer drops exactly the packets that find too few tokens. A full queue drops packets in the same way, if its free
space is counted as tokens. The RTT distinguishes the two, because it is high when a queue is full.

PD does not know the bucket size, so that its tokens(t) has no upper bound. While the sender is idle, a full bucket
stays full, but tokens(t) continues to rise (R-TCP 2026, section 3.2).

Source: Flach et al. 2016, "An Internet-wide analysis of traffic policing", section 3. R-TCP 2026 gives only PD's
results.

DEVIATION: the five bounds and the way to compare RTTs are choices of this project, because R-TCP 2026 gives neither.
docs/rtcp.md says how little depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulation.run.qos import QoS

LEAST_LOST = 15
EMPTY_PKTS = 2.0
MOST_STRAY_LOST, MOST_STRAY_PASSED = 0.1, 0.03
MOST_QUEUED = 1.3
WIRE_BYTES = 1500

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SentPackets:
    """A flow's packets in n bins, by the time at which they were sent.

    time_s: float [n] ascending, the ends of the bins. passed, lost: int [n]. rtt_ms: float [n], the latest RTT known at
    the end of the bin; 0 before the first one.
    """

    time_s: Floats
    passed: Counts
    lost: Counts
    rtt_ms: Floats


def sent_packets(qos: QoS, *, every_s: float) -> SentPackets:
    """The packets of a run of one flow with series_every_s = every_s.

    Nothing holds packets before the link, so that a packet is sent when it enters the link's queue or is dropped before
    it. A packet that is lost after the link has left its queue. The queue is first in, first out, so that the packet's
    rank gives the bin in which it entered.
    """
    elements = qos.element_series
    if elements is None or len(qos.flows) != 1:
        raise ValueError("expected a run of one flow with series_every_s, got none of its elements, or several flows")
    link = [element.name for element in qos.elements].index("link")
    n = len(elements.time_s)
    left = np.rint(qos.series["rate_mbps"][:n] * every_s * 1e6 / (8 * WIRE_BYTES)).astype(np.int64)
    inside = elements.inside[:, link].astype(np.int64)
    passed = np.maximum(left + np.diff(inside, prepend=0), 0)
    dropped = elements.dropped.astype(np.int64)
    lost = dropped[:, : link + 1].sum(axis=1)
    entered_pkts, left_pkts = np.cumsum(passed), np.cumsum(left)
    behind = dropped[:, link + 1 :].sum(axis=1)
    for at in np.flatnonzero(behind):
        ranks = np.linspace(left_pkts[at] - left[at], left_pkts[at], behind[at] + 2)[1:-1]
        bins = np.minimum(np.searchsorted(entered_pkts, ranks), n - 1)
        np.add.at(lost, bins, 1)
        np.add.at(passed, bins, -1)
    return SentPackets(elements.time_s, np.maximum(passed, 0), lost, qos.series["rtt_ms"][:n])


def policed_pkts_per_s(sent: SentPackets) -> float | None:
    """The rate of the policer in the flow's path; None: there is no policer.

    Within a bin the packets that passed count before the lost ones, as a bucket empties. Packets that passed in the bin
    of the first loss do not count.
    """
    bins = np.flatnonzero(sent.lost)
    if sent.lost.sum() < LEAST_LOST or bins[-1] == bins[0]:
        return None
    between = slice(bins[0], bins[-1] + 1)
    time_s, lost, passed = sent.time_s[between] - sent.time_s[bins[0]], sent.lost[between], sent.passed[between].copy()
    passed[0] = 0
    if not passed.sum():
        return None
    pkts_per_s = float(passed.sum() / time_s[-1])
    after = pkts_per_s * time_s - np.cumsum(passed)
    before = after + passed - np.maximum(passed - 1, 0) / 2  # mean level over the bin's packets
    empty_at_losses = (
        np.average(after, weights=lost) < np.average(before, weights=passed)
        and _median(after, lost) < _median(before, passed)
        and lost[np.abs(after) > EMPTY_PKTS].sum() <= MOST_STRAY_LOST * lost.sum()
        and passed[before < 0].sum() <= MOST_STRAY_PASSED * passed.sum()
    )
    least_ms = min(sent.rtt_ms[sent.rtt_ms > 0], default=0.0)
    in_a_queue = _median(sent.rtt_ms[between], lost) > MOST_QUEUED * least_ms
    return pkts_per_s if empty_at_losses and not in_a_queue else None


def _median(values: Floats, weights: Counts) -> float:
    """The lower median of values, each repeated as often as its weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, (total[-1] + 1) // 2)])
