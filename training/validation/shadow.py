# SPDX-License-Identifier: MIT
"""Compares a candidate ensemble with a baseline in the simulator, before a roll-out gives it to servers.

Flows of both run over the same recordings and paths, from slow start on, and adapt online as deployed flows do. Of each
delay class:

    within_target   share of the candidate's packets within the target, less that of the baseline's
    goodput         bytes that the candidate's flow delivered, by those of the baseline's, less 1

Intervals are 95 % percentile bootstraps over windows of an epoch (training/intervals.py). A draw takes the same windows
of both ensembles, because these had the same link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import FlowSpec, Scenario
from emulation.traces import Recording
from kmod.ensemble import Deployment, Ensemble, table_text
from training.errors import TrainingError
from training.intervals import drawn_weights, interval_95
from training.validation.recordings import FLOW_S, Path, Windows, windows_of
from training.workloads.epochs import simulate_with_progress

Floats = NDArray[np.float64]


def require_comparable(baseline: Ensemble, candidate: Ensemble) -> None:
    """Raise TrainingError unless both ensembles promise the same targets of the same algorithm."""
    if not candidate.classes:
        raise TrainingError(f"{candidate.digest}: expected an ensemble with delay classes, got one without")
    if (baseline.cca, baseline.classes) != (candidate.cca, candidate.classes):
        raise TrainingError(
            f"expected two ensembles of one algorithm with the same delay classes, got {baseline.digest} of "
            f"{baseline.cca} and {candidate.digest} of {candidate.cca} with others"
        )


def seconds_of(candidate: Ensemble, recordings: Sequence[Recording]) -> float:
    """The time that compare() simulates."""
    return 2 * len(candidate.classes) * sum(r.duration_s for r in recordings)


def compare(
    baseline: Ensemble,
    candidate: Ensemble,
    recordings: Sequence[Recording],
    *,
    path: Path,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _seconds: None,
) -> dict[str, Any]:
    """Run both ensembles and return the comparison as JSON data, as `ccatune rollout start --shadow` takes it.

    progress: called with the seconds that were simulated since the previous call.

    Raises:
        TrainingError: there are no recordings, or the ensembles cannot be compared.
    """
    require_comparable(baseline, candidate)
    if not recordings:
        raise TrainingError("evaluate: expected recordings, got none")
    pieces = list(recordings)
    if path.paths is not None:
        pieces = [piece for r in recordings for piece in r.pieces(FLOW_S * 1000)]
    texts = [table_text(one, Deployment("evaluation", "validated", 1)) for one in (baseline, candidate)]
    scenarios = [
        Scenario(
            name=f"{r.name} {arm} {c}",
            link=path.link(r),
            flows=(FlowSpec(cca=candidate.cca, ensemble_text=text, delay_class=c),),
            duration_s=r.duration_s,
            window_s=candidate.epoch_ms / 1000,
            seed=path.seed,
        )
        for arm, text in enumerate(texts)
        for c in range(len(candidate.classes))
        for r in pieces
    ]
    runs = simulate_with_progress(scenarios, threads=threads, advance=progress)
    n, n_classes = len(pieces), len(candidate.classes)
    levels = [np.zeros(len(run.windows.start_ms), dtype=np.int64) for run in runs[:n]]
    windows = [windows_of(candidate, pieces, runs[i * n : (i + 1) * n], levels) for i in range(2 * n_classes)]
    return {
        "cca": candidate.cca,
        "baseline_digest": baseline.digest,
        "candidate_digest": candidate.digest,
        "recordings": len(recordings),
        "hours": sum(r.duration_s for r in recordings) / 3600,
        "datasets": sorted({r.dataset for r in recordings}),
        "path": path.as_json(),
        "targets": [
            _target(windows[c], windows[n_classes + c], target_us=one.queueing_delay_us, seed=path.seed)
            for c, one in enumerate(candidate.classes)
        ],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """A line for each target."""
    return [
        f"target {row['target_ms']:g} ms: within target {100 * row['baseline']['share_within']:.2f} % -> "
        f"{100 * row['candidate']['share_within']:.2f} %, change {_points(row['within_target'])}; "
        f"goodput {_points(row['goodput'])}"
        for row in found["targets"]
    ]


def _points(change: dict[str, Any]) -> str:
    low, high = change["interval"]
    return f"{100 * change['change']:+.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]"


def _target(baseline: Windows, candidate: Windows, *, target_us: int, seed: int) -> dict[str, Any]:
    # The first row of weights is all windows once: the figures themselves.
    drawn = drawn_weights(len(baseline.capacity), seed=seed)
    weights = np.vstack([np.ones((1, drawn.shape[1])), drawn])
    shares = [_share_within(w, weights, target_us) for w in (baseline, candidate)]
    delivered = [weights @ w.delivered for w in (baseline, candidate)]
    goodput = delivered[1] / np.maximum(delivered[0], 1.0) - 1
    arms = {
        name: {
            "share_within": float(shares[at][0]),
            "utilization": float(delivered[at][0] / max(w.capacity.sum(), 1.0)),
        }
        for at, (name, w) in enumerate((("baseline", baseline), ("candidate", candidate)))
    }
    return {
        "target_ms": target_us / 1000,
        **arms,
        "within_target": _change(shares[1] - shares[0]),
        "goodput": _change(goodput),
    }


def _share_within(w: Windows, weights: Floats, target_us: int) -> Floats:
    """The share of packets within the target, for each draw; a bin is within if its upper edge is."""
    within = w.counts[:, w.edges_us <= target_us].sum(axis=1, dtype=np.float64)
    found: Floats = (weights @ within) / np.maximum(weights @ w.counts.sum(axis=1, dtype=np.float64), 1.0)
    return found


def _change(values: Floats) -> dict[str, Any]:
    low, high = interval_95(values[1:])
    return {"change": float(values[0]), "interval": [float(low), float(high)]}
