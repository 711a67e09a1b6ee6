# SPDX-License-Identifier: MIT
"""Turns runs into what a model learns, and what it predicts into tallies, so that objectives score both alike.

The ratios of a run, none of them negative:

    unused          1 - delivered / capacity
    goodput         over the reference's, or over the capacity where the objective has no reference
    retransmitted   over the most that a reference retransmits, at least LEAST_RETRANSMITTED_PKTS; without one over the
                    packets delivered

With several references the last one is meant, which is the unmodified algorithm of R-TCP. Beside them the flag whether
R-TCP takes the client for limited, and the shares of packets by queueing delay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.objectives.retransmissions import LEAST_RETRANSMITTED_PKTS
from training.objectives.tally import WIRE_PACKET_BYTES, Pool, Tally
from training.searches.contextual import Outputs
from training.workloads import Case

MOST_RATIO = 5.0


@dataclass(frozen=True, eq=False)
class Scale:
    """What the ratios of a case are of. goodput: in bytes per second. references: by algorithm.

    fixed: the run of the references, where all of them and every parameter set do the same (evaluation/runner.py).
    """

    seconds: float
    capacity_bytes: int
    goodput: float
    retransmitted_pkts: float
    group: str
    references: Mapping[str, Tally]
    fixed: Tally | None = None


def scale_of(case: Case, references: Mapping[str, Tally]) -> Scale:
    """The scale of a case, whose references have run."""
    if not references:
        rate = case.capacity_bytes / case.measured_s
        packets = max(case.capacity_bytes / WIRE_PACKET_BYTES, 1.0)
        return Scale(case.measured_s, case.capacity_bytes, rate, packets, case.group, references)
    *_, last = references.values()
    most = max(*(one.retransmitted_pkts for one in references.values()), LEAST_RETRANSMITTED_PKTS)
    goodput = max(last.goodput_bytes_per_s, 1e-9)
    alike = len(references) > 1 and all(one is last for one in references.values())
    return Scale(last.duration_s, last.capacity_bytes, goodput, most, case.group, references, last if alike else None)


def outputs_of(tallies: Sequence[Tally], scales: Sequence[Scale], *, with_delays: bool = True) -> Outputs:
    """What a model learns of runs; scales: of their cases. with_delays: where an objective needs them."""
    ratios = [
        (
            1.0 - t.delivered_bytes / max(t.capacity_bytes, 1),
            t.goodput_bytes_per_s / scale.goodput,
            t.retransmitted_pkts / scale.retransmitted_pkts,
        )
        for t, scale in zip(tallies, scales, strict=True)
    ]
    delays = np.array([t.delays if with_delays else [] for t in tallies], dtype=np.float32)
    return Outputs(
        np.clip(np.array(ratios, dtype=np.float64), 0.0, MOST_RATIO),
        np.array([float(t.is_limited) for t in tallies]),
        delays / np.maximum(delays.sum(axis=1, keepdims=True), 1),
    )


def pool_of(scales: Sequence[Scale], ratios: NDArray[np.floating], flags: NDArray[np.floating],
            delays: NDArray[np.floating]) -> Pool:  # fmt: skip
    """The predicted runs of a point. ratios [cases, 3], flags [cases], delays [cases, bins]; no bins: not known."""
    ratios, flags = np.array(ratios, dtype=np.float64), np.array(flags, dtype=np.float64)
    for i, scale in enumerate(scales):
        if scale.fixed is not None:
            known = outputs_of([scale.fixed], [scale])
            ratios[i], flags[i] = known.ratios[0], known.flags[0]
    capacities = np.array([scale.capacity_bytes for scale in scales], dtype=np.float64)
    delivered = np.rint((1.0 - np.clip(ratios[:, 0], 0, 1)) * capacities).astype(np.int64)
    # Rounded sums, so that the packets of all bins add up.
    reached = np.rint(np.cumsum(delays, axis=1) * (delivered / WIRE_PACKET_BYTES)[:, None]).astype(np.int64)
    counts = np.diff(reached, axis=1, prepend=0)
    packets = counts.sum(axis=1)
    goodput = np.rint([r * s.goodput * s.seconds for r, s in zip(ratios[:, 1], scales, strict=True)]).astype(np.int64)
    retransmitted = [r * s.retransmitted_pkts for r, s in zip(ratios[:, 2], scales, strict=True)]
    tallies = [
        Tally(scale.seconds, scale.capacity_bytes, int(delivered[i]), int(packets[i]), counts[i], int(goodput[i]),
              int(goodput[i] / WIRE_PACKET_BYTES + retransmitted[i]), retransmitted[i], float(flags[i]), scale.group,
              scale.references)
        for i, scale in enumerate(scales)
    ]  # fmt: skip
    return Pool(tallies, sum(s.seconds for s in scales), int(capacities.sum()), int(delivered.sum()),
                int(goodput.sum()), int(packets.sum()), counts.sum(axis=0))  # fmt: skip
