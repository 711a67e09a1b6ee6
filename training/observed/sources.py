# SPDX-License-Identifier: MIT
"""From files to flows, and from flows to links: what the commands over observed flows begin with.

A file is a capture (captures.py) or a log of samples (samples.py). A folder stands for all files below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from training.errors import TrainingError
from training.observed.flow import Flow
from training.observed.seen import Limit, SeenLink

Advance = Callable[[float], None]
DEFAULT_BUFFER_PKTS = 250  # at least so long, where no flow overflowed it
FAST_MBPS = 100.0  # of the link in front of which a limit is, where no flow shows more


@dataclass(frozen=True)
class Observed:
    """Flows, and remarks on files, a sentence each."""

    flows: list[Flow]
    remarks: tuple[str, ...]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files of these paths, those below folders in the order of their names.

    Raises:
        TrainingError: a path does not exist, or there is no file.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise TrainingError(f"{path}: expected a capture, a log or a folder of them, got no such file")
        found += sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    if not found:
        raise TrainingError(f"{paths[0]}: expected captures or logs in this folder, got no file")
    return found


def read_flows(paths: Sequence[Path], *, advance: Advance = lambda _share: None) -> Observed:
    """The flows of all files. In a folder, files that cannot be used are left out with a remark.

    advance: called with the share of the bytes that were read since the call before.

    Raises:
        TrainingError: a file that was named cannot be used, or there is no flow at all.
    """
    captures, samples = (import_module(f"training.observed.{name}") for name in ("captures", "samples"))
    files, named = files_of(paths), set(paths)
    total = max(sum(file.stat().st_size for file in files), 1)
    flows: list[Flow] = []
    remarks: list[str] = []
    for file in files:
        try:
            found: Any = captures.read_capture(file) if captures.is_capture(file) else samples.read_samples(file)
            flows += found.flows
            remarks += [f"{file.name}: {remark}" for remark in found.remarks]
        except TrainingError as error:
            if file in named:
                raise
            remarks.append(f"Left out: {error}.")
        advance(file.stat().st_size / total)
    if not flows:
        raise TrainingError(f"{paths[0]}: expected flows, got none. {' '.join(remarks[:3])}".strip())
    return Observed(flows, tuple(remarks))


def links_of(flows: Sequence[Flow], *, advance: Advance = lambda _share: None) -> list[SeenLink]:
    """The links that flows show. A flow that was never backlogged shows none."""
    links, policing, telling = (import_module(f"training.observed.{name}") for name in ("links", "policing", "telling"))
    found: list[SeenLink] = []
    for flow in flows:
        limit = policing.limit_of(flow)
        rebuilt, facts = links.rebuild(flow, limit=limit), telling.facts_of(flow)
        found += seen_links(flow, rebuilt, facts, None if limit is None else Limit(limit.rate_mbps, limit.burst_bytes))
        advance(1 / len(flows))
    return found


def seen_links(flow: Flow, rebuilt: Any, facts: Any, limit: Limit | None) -> list[SeenLink]:
    """The links of a flow: a piece each; or the limit that it met, in front of a link that it did not fill."""
    common: dict[str, Any] = {
        "rtt_ms": max(rebuilt.base_rtt_ms, 0.1), "loss": facts.random_loss, "algorithm": flow.algorithm,
        "ack_interval_ms": facts.ack_interval_ms or None,
    }  # fmt: skip
    if limit is not None:
        rates = np.diff(flow.steps["delivered_bytes"]) * 8.0 / np.maximum(np.diff(flow.steps["time_us"]), 1000)
        access_mbps = max(float(np.percentile(rates, 99)) if len(rates) else 0.0, 2 * limit.rate_mbps, 1.0)
        return [SeenLink(flow.name, flow.duration_s, rate_mbps=min(access_mbps, FAST_MBPS), limit=limit, **common)]
    return [
        SeenLink(f"{flow.name} {number}", piece.duration_s * piece.known_share, trace=piece.trace,
                 buffer_pkts=facts.buffer_pkts or DEFAULT_BUFFER_PKTS, buffer_is_known=facts.buffer_pkts is not None,
                 **common)
        for number, piece in enumerate(rebuilt.pieces, 1)
    ]  # fmt: skip
