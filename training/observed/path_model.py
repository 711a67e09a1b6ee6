# SPDX-License-Identifier: MIT
"""A distribution of paths (training/workloads/paths.py) fitted to observed flows.

    range       from the least to the greatest value; from FEW flows on, from the 5th to the 95th percentile
    share       flows that have the element, over the flows whose source can show it
    buffer      of flows that overflowed it. Without any: from the largest queue to UNKNOWN_BUFFER times as much
    loss        random loss of at least LEAST_LOSS
    outage      of flows with an outage; every_s: their time over their number of outages
    policers    do not belong to this distribution. Losses and outages of policed flows do not count

Radios that hold data, CoDel, and hosts that stall look like ACKs that are held, jitter and random loss.
They are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from training.errors import TrainingError
from training.observed.telling import FlowFacts
from training.workloads.paths import PathsSettings

LEAST_FLOWS = 5
FEW = 20
UNKNOWN_BUFFER = 4.0
LEAST_LOSS = 1e-4
LEAST_JITTER_MS = 1.0


def paths_of(flows: Sequence[FlowFacts], *, name: str) -> PathsSettings:
    """Fit a distribution of paths. name: of the distribution, lower-case letters, digits and hyphens.

    Raises TrainingError for fewer than LEAST_FLOWS flows that have an RTT.
    """
    known = [facts for facts in flows if facts.base_rtt_ms]
    if len(known) < LEAST_FLOWS:
        raise TrainingError(
            f"{name}: expected at least {LEAST_FLOWS} flows with an RTT to fit paths to, got {len(known)}"
        )
    fields: dict[str, Any] = {
        "name": name,
        "rtt_ms": _ends(facts.base_rtt_ms for facts in known),
        "buffer_pkts": _buffers(known),
    }
    interval = _element([facts.ack_interval_ms for facts in known], least=0)
    fields["ack_interval_ms"] = () if interval is None else (interval,)
    fields["jitter_ms"] = _element([facts.jitter_ms for facts in known], least=LEAST_JITTER_MS)
    unpoliced = [facts.random_loss for facts in known if not facts.policed_loss]
    fields["loss"] = _element(unpoliced, least=LEAST_LOSS)
    fields["outage_s"] = _outages(known)
    return PathsSettings.model_validate(fields)


def paths_text(paths: PathsSettings, flows: Sequence[FlowFacts]) -> str:
    """The distribution as a YAML file, with a comment that says how many flows it was fitted to."""
    import yaml

    known = [facts for facts in flows if facts.base_rtt_ms]
    overflowed = sum(facts.buffer_pkts is not None for facts in known)
    acks = sum(facts.ack_interval_ms is not None for facts in known)
    lines = [
        f"# Fitted to {len(known)} observed flows. {overflowed} of them filled the buffer, {acks} show single ACKs.",
        *(["# No flow filled the buffer: its range begins at the largest queue."] if not overflowed else []),
    ]
    fields = paths.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    return "\n".join(lines) + "\n" + yaml.safe_dump(fields, sort_keys=False, default_flow_style=None)


def _ends(values: Iterable[float | None]) -> tuple[float, float]:
    found = np.array([value for value in values if value], dtype=np.float64)
    low, high = (0, 100) if len(found) < FEW else (5, 95)
    # Four digits at most, as the ranges of a file have.
    return float(f"{np.percentile(found, low):.4g}"), float(f"{np.percentile(found, high):.4g}")


def _buffers(flows: Sequence[FlowFacts]) -> tuple[float, float]:
    known = [float(facts.buffer_pkts) for facts in flows if facts.buffer_pkts]
    if known:
        return _ends(known)
    largest = [float(facts.largest_queue_pkts) for facts in flows if facts.largest_queue_pkts]
    if not largest:
        raise TrainingError(f"{flows[0].flow}: expected flows with a queue, got none that shows how long a buffer is")
    low, high = _ends(largest)
    return low, high * UNKNOWN_BUFFER


def _element(values: Sequence[float | None], *, least: float) -> dict[str, Any] | None:
    """An element of the paths whose value is above `least`; None where no flow has it."""
    shown = [value for value in values if value is not None]
    found = [value for value in shown if value > least]
    return {"share": round(len(found) / len(shown), 3), "between": _ends(found)} if found else None


def _outages(flows: Sequence[FlowFacts]) -> dict[str, Any] | None:
    shown = [facts for facts in flows if facts.outages is not None]
    hit = [facts for facts in shown if facts.outages]
    if not hit:
        return None
    lengths_s = [outage.duration_s for facts in hit for outage in facts.outages or ()]
    every_s = [facts.duration_s / len(facts.outages or ()) for facts in hit]
    return {"share": round(len(hit) / len(shown), 3), "between": _ends(lengths_s), "every_s": _ends(every_s)}
