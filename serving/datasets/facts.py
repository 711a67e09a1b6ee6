# SPDX-License-Identifier: MIT
"""Figures of the recordings that a runner has, for the registry's pages.

    rates        bytes of opportunities in each whole second
    variation    relative Allan deviation by time scale (emulation/traces/variation.py): the root of the mean square
                 over pieces of at most an hour, weighted by their length

The figures are of all recordings in the folder, also of those that training or validation leaves out.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kmod.errors import CcatuneError
from serving.client_requests import RegistryRequests

if TYPE_CHECKING:
    from emulation.traces import Recording

EVERY_S = 86_400.0
_PARTS = 200
_PIECE_MS = 3_600_000
_LEAST_SCALE_MS = 8
_DIGITS = 4


def facts_of(path: Path) -> dict[str, Any]:
    """Return the figures of the recordings at a path, as serving/datasets/schemas.py has them. Raises TraceError."""
    from emulation.traces import TraceError, read_recordings

    recordings = read_recordings(path, skip_bad=True)
    if not recordings:
        raise TraceError(f"{path}: expected recordings, got none")
    digests = sorted(one.trace.digest for one in recordings)
    seconds = sum(one.duration_s for one in recordings)
    mean_mbps = sum(one.trace.mean_rate_mbps * one.duration_s for one in recordings) / seconds
    return {
        "content": hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        "recordings": len(recordings),
        "hours": round(seconds / 3600, 6),
        "mean_mbps": round(mean_mbps, _DIGITS),
        **_rates(recordings, mean_mbps),
        "variation": _variation(recordings),
    }


def _rates(recordings: Sequence[Recording], mean_mbps: float) -> dict[str, Any]:
    import numpy as np

    from emulation.traces import OPPORTUNITY_BYTES

    counts = np.concatenate([one.trace.bin_counts(1000) for one in recordings])
    # Recordings that are all shorter than a second have no whole one.
    rates = counts * (OPPORTUNITY_BYTES * 8e-6) if len(counts) else np.array([mean_mbps])
    parts = [float(part.mean()) for part in np.array_split(rates, min(_PARTS, len(rates)))]
    low, high = (float(rate) for rate in np.percentile(rates, (5, 95)))
    return {
        "p5_mbps": round(low, _DIGITS),
        "p95_mbps": round(high, _DIGITS),
        "rates_mbps": [round(part, _DIGITS) for part in parts],
    }


def _variation(recordings: Sequence[Recording]) -> list[dict[str, float]]:
    from emulation.traces.variation import variation_of

    squares, weights = defaultdict[float, float](float), defaultdict[float, float](float)
    for one in recordings:
        for piece in one.pieces(_PIECE_MS):
            found = variation_of(piece.trace)
            for scale_ms, deviation in zip(found.scale_ms.tolist(), found.deviation.tolist(), strict=True):
                squares[scale_ms] += piece.duration_s * deviation**2
                weights[scale_ms] += piece.duration_s
    return [
        {"scale_ms": scale_ms, "deviation": round((squares[scale_ms] / weights[scale_ms]) ** 0.5, _DIGITS)}
        for scale_ms in sorted(squares)
        if scale_ms >= _LEAST_SCALE_MS
    ]


def describe(
    client: RegistryRequests, datasets: Mapping[str, Path], *, runner: str, stop: threading.Event, once: bool,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Send the figures of each dataset now and, unless `once`, every day until `stop` is set."""
    while not stop.is_set():
        for name, path in datasets.items():
            try:
                facts = facts_of(path)
                if stop.is_set():
                    return
                client.send("PUT", f"/v1/datasets/{name}", body={**facts, "runner": runner})
            except (CcatuneError, OSError) as error:
                say(f"dataset {name}: the registry does not learn what its recordings are: {error}")
        if once or stop.wait(EVERY_S):
            return
