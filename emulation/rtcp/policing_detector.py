# SPDX-License-Identifier: MIT
"""PD, the loss-based policer detector of Flach et al. 2016, over what a sender's trace holds of a flow.

    t0, t1       when the first and the last lost packet were sent
    rate         packets that passed between t0 and t1, over t1 - t0
    tokens(t)    rate (t - t0) - packets that passed since t0: the level of a bucket that was empty at t0

    policed: at least LEAST_LOST lost, and
             mean and median of tokens at losses below those at packets that passed, and
             at all but MOST_STRAY_LOST of the losses   |tokens| <= EMPTY_PKTS, and
             at all but MOST_STRAY_PASSED of the others  tokens >= 0

A policer drops what finds too few tokens, and nothing else. tokens(t) holds no bucket size: a bucket that runs over,
while the sender is idle, is taken for one that goes on to fill (R-TCP 2026, section 3.2).

Source: Flach et al. 2016, "An Internet-wide analysis of traffic policing", section 3; R-TCP 2026 has its outcome alone.
DEVIATION: the four bounds are ours, and its look at round trips, which tells policers from full queues, is left out.
R-TCP 2026 has neither; docs/rtcp.md says how little hangs on the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulation.qos import QoS

__all__ = ["SentPackets", "policed_pkts_per_s", "sent_packets"]

LEAST_LOST = 15
EMPTY_PKTS = 2.0
MOST_STRAY_LOST, MOST_STRAY_PASSED = 0.1, 0.03
WIRE_BYTES = 1500

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SentPackets:
    """A flow's packets by when they were sent, in n bins: time_s float [n] ascending, their ends; passed, lost [n]."""

    time_s: Floats
    passed: Counts
    lost: Counts


def sent_packets(qos: QoS, *, every_s: float) -> SentPackets:
    """Of the one flow of a run with series_every_s = every_s.

    In front of the link nothing holds packets here: they are sent when they enter its queue or are dropped before. What
    is lost behind it has left the queue, which is first in, first out: it is found where it entered.
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
    return SentPackets(elements.time_s, np.maximum(passed, 0), lost)


def policed_pkts_per_s(sent: SentPackets) -> float | None:
    """The rate of the policer that the flow is behind; None: of no policer.

    Within a bin what passed is before what was lost, as a bucket empties; what passed in the first loss's bin does not
    count.
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
    before = after + passed - np.maximum(passed - 1, 0) / 2  # mean over the bin's packets
    stray_lost = float(lost[np.abs(after) > EMPTY_PKTS].sum() / lost.sum())
    stray_passed = float(passed[before < 0].sum() / passed.sum())
    empty_at_losses = (
        np.average(after, weights=lost) < np.average(before, weights=passed)
        and _median(after, lost) < _median(before, passed)
        and stray_lost <= MOST_STRAY_LOST
        and stray_passed <= MOST_STRAY_PASSED
    )
    return pkts_per_s if empty_at_losses else None


def _median(values: Floats, weights: Counts) -> float:
    """The lower one: of each value as often as its weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, (total[-1] + 1) // 2)])
