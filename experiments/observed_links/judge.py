# SPDX-License-Identifier: MIT
"""Compares rebuilt links with the true ones.

rate        a second counts if at least KNOWN of it is known, or if packets waited in at least BUSY of it in truth
bias        mean rate of the known seconds over the mean rate of the true link, of each run
resimulated another algorithm over a piece and over the same time of the true link, each repeated for RUN_S, on the
            same path. `as told`: over the piece with the RTT and the buffer that the flow tells, if it tells both
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation import FlowSpec, LinkSpec, Scenario, simulate
from emulation.traces import Trace
from experiments.figures import half_of, number
from experiments.observed_links.runs import DURATION_S, Observed
from training.intervals import LEAST_SEEDS, drawn_rows, interval_of, wilson_95
from training.observed.links import RebuiltLink, rebuild
from training.observed.telling import facts_of

OTHERS = {"cubic": ("bbr", "gr"), "bbr": ("cubic", "gr")}
KNOWN, BUSY, RATE_ERROR = 0.9, 0.99, 0.1
MOST_ERROR = {"throughput": 0.05, "p95_delay": 0.13}
RUN_S, SEED = 30.0, 1
Floats = NDArray[np.float64]


def _busy_shares(busy_s: Floats, bounds_s: Floats) -> Floats:
    """The share of each second in which packets waited; busy_s: [k, 2] intervals that may overlap."""
    ends = np.maximum.accumulate(busy_s[:, 1])
    starts = np.maximum(busy_s[:, 0], np.append(-np.inf, ends[:-1]))
    lengths = np.maximum(ends - starts, 0)
    total = np.append(0.0, np.cumsum(lengths))
    return np.asarray(np.diff(np.interp(bounds_s, np.append(0.0, ends), total)) / np.diff(bounds_s))


def seconds_of(one: Observed, link: RebuiltLink) -> dict[str, Floats]:
    """Of each second: the rebuilt and the true rate, the known and the busy share."""
    bounds_s = np.arange(0, DURATION_S + 1)
    rates, known = link.rates_mbps(bounds_s + one.late_s)
    trace = one.scenario.link.trace
    assert trace is not None  # noqa: S101 (a scenario of runs.py has one)
    at_ms = (bounds_s * 1000).astype(int).tolist()
    true = [trace.capacity_bytes(start, end) * 8e-6 for start, end in pairwise(at_ms)]
    return {"rebuilt": rates, "true": np.array(true), "known": known, "busy": _busy_shares(one.busy_s, bounds_s)}


def _qos(trace: Trace, cca: str, path: LinkSpec) -> Floats:
    link = path.model_copy(update={"trace": trace})
    qos = simulate(Scenario(link=link, flows=(FlowSpec(cca=cca),), duration_s=RUN_S))
    return np.array([qos.throughput_mbps, qos.queueing_delay.percentile_ms(95)])


def errors_of(one: Observed, link: RebuiltLink, other: str) -> list[dict[str, Any]]:
    """Of each piece the errors of throughput and p95 queueing delay of another algorithm, relative to the true link."""
    true, facts, rows = one.scenario.link, facts_of(one.flow), []
    assert true.trace is not None  # noqa: S101 (as above)
    for piece in link.pieces:
        start_ms = max(round((piece.start_s - one.late_s) * 1000), 0)
        stretch = true.trace.slice(start_ms, min(start_ms + piece.trace.period_ms, true.trace.period_ms))
        expected = _qos(stretch, other, true)
        found = {"": _qos(piece.trace, other, true)}
        if facts.buffer_pkts and facts.base_rtt_ms:
            told = true.model_copy(update={"rtt_ms": facts.base_rtt_ms, "buffer_pkts": facts.buffer_pkts})
            found["as told"] = _qos(piece.trace, other, told)
        for name, values in found.items():
            throughput, delay = (values / expected - 1).tolist()
            rows.append({"run": one.scenario.name, "path": name, "seconds": piece.duration_s, "throughput": throughput,
                         "p95_delay": delay})  # fmt: skip
    return rows


def _share(hits: NDArray[np.bool_]) -> dict[str, Any]:
    low, high = wilson_95(int(hits.sum()), len(hits)) if len(hits) else (0.0, 1.0)
    return {"share": number(float(hits.mean())) if len(hits) else None, "low": low, "high": high, "of": len(hits)}


def _errors(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Median and worst absolute error, and the share of pieces within the bound. The interval is by run."""
    sizes = np.abs([row[name] for row in rows])
    runs = {run: [abs(row[name]) for row in rows if row["run"] == run] for run in dict.fromkeys(r["run"] for r in rows)}
    lists = list(runs.values())
    draws = [np.median(np.concatenate([lists[i] for i in draw])) for draw in drawn_rows(len(lists), seed=SEED)]
    worst = max(rows, key=lambda row: abs(row[name]))
    return {"median": float(np.median(sizes)), "interval": half_of(np.array(draws)), "worst": worst[name],
            "worst_run": worst["run"], "within": _share(sizes <= MOST_ERROR[name]), "mean": float(np.mean(
                [row[name] for row in rows]))}  # fmt: skip


def judge(runs: Sequence[Observed]) -> dict[str, Any]:
    """The figures of the runs of one source and one algorithm, at least five."""
    links = [rebuild(one.flow) for one in runs]
    seconds = [seconds_of(one, link) for one, link in zip(runs, links, strict=True)]
    columns = {name: np.concatenate([each[name] for each in seconds]) for name in seconds[0]}
    carries = columns["true"] > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.abs(columns["rebuilt"] / columns["true"] - 1)
        right = errors <= RATE_ERROR
    known, busy = carries & (columns["known"] >= KNOWN), carries & (columns["busy"] >= BUSY)
    bias = np.array([
        float(each["rebuilt"][each["known"] >= KNOWN].mean() / each["true"].mean())
        for each in seconds if (each["known"] >= KNOWN).any()
    ])  # fmt: skip
    found: dict[str, Any] = {
        "runs": len(runs),
        "known_share": float(np.mean([link.known_share for link in links])),
        "busy_share": float(busy.mean()),
        "resolution_ms": float(np.median([link.resolution_ms for link in links])),
        "second_error": float(np.median(errors[known])) if known.any() else None,
        "known_seconds": _share(right[known]),
        "busy_seconds": _share(right[busy] & (columns["known"][busy] >= KNOWN)),
        "bias": {
            "mean": float(bias.mean()) if len(bias) else None,
            "interval": interval_of(bias) if len(bias) >= LEAST_SEEDS else None,
        },
        "kept_share": sum(piece.duration_s for link in links for piece in link.pieces) / (DURATION_S * len(runs)),
        "resimulated": {},
    }
    for other in OTHERS[runs[0].flow.algorithm]:
        rows = [row for one, link in zip(runs, links, strict=True) for row in errors_of(one, link, other)]
        for path in ("", "as told"):
            if its := [row for row in rows if row["path"] == path]:
                name = f"{other}, {path}" if path else other
                found["resimulated"][name] = {"pieces": len(its), **{key: _errors(its, key) for key in MOST_ERROR}}
    return found
