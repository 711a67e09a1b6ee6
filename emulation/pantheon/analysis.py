# SPDX-License-Identifier: MIT
"""Analyses a Pantheon data folder: the statistics of each run and scheme, and series over time.

Each run has one of these verdicts. Only runs that are ok count in the statistics of a scheme.

    ok          its log is complete
    too short   the packets left during less than 0.8 of the runtime; Pantheon ignores such a run, too
    failed      the runner noted a failure, for example that the scheme crashed
    empty       no packet left
    damaged     its log cannot be read
    missing     it has no log

A series has bins of 500 ms, which begin at the first event. Each bin has the capacity of the link. For each flow it has
the ingress, the throughput, and the median and 95th percentile of the delay. A flow has no values before its first and
after its last packet.

DEVIATION: the rate of the last bin is computed over the time up to the last event. A last bin of less than half the
length is left out. Pantheon computes the rate of the last bin over the whole length, so its graphs fall there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from emulation.errors import EmulationError
from emulation.mahimahi.logs import Floats, Ints, Kind, TunnelLog, log_path, read_link_log, read_log
from emulation.pantheon.metadata import Metadata, read_metadata
from emulation.pantheon.statistics import RunStatistics, Spread, Summary, read_stats_log, run_statistics, summarise

Verdict = Literal["ok", "too short", "failed", "empty", "damaged", "missing"]

BIN_MS = 500.0
LEAST_SHARE_OF_RUNTIME = 0.8
MOST_POINTS = 3000


@dataclass(frozen=True)
class FlowSeries:
    """The series of a flow. ingress_mbps, throughput_mbps, delay_*_ms: float [n_bins], nan in bins without a value.

    point_s, point_delay_ms: float [n_points], delays of single packets. If there are more than MOST_POINTS packets,
    these are evenly chosen packets, and the packet with the longest delay in each bin.
    """

    ingress_mbps: Floats
    throughput_mbps: Floats
    delay_median_ms: Floats
    delay_p95_ms: Floats
    point_s: Floats
    point_delay_ms: Floats


@dataclass(frozen=True)
class Series:
    """A run over time. start_s: float [n_bins], the start of each bin. capacity_mbps: None if the log states none."""

    bin_s: float
    start_s: Floats
    capacity_mbps: Floats | None
    flows: dict[int, FlowSeries]


@dataclass(frozen=True)
class RunAnalysis:
    """A run of a scheme. statistics, series: None without a readable log. acks: statistics of the ACKs' direction."""

    scheme: str
    run: int
    verdict: Verdict
    reason: str
    output: str | None
    times: dict[str, str]
    statistics: RunStatistics | None
    series: Series | None
    acks: RunStatistics | None = None


@dataclass(frozen=True)
class SchemeAnalysis:
    """All runs of a scheme. summary: statistics over the runs that are ok; without values if no run is ok."""

    scheme: str
    runs: tuple[RunAnalysis, ...]
    summary: Summary

    @property
    def valid_runs(self) -> tuple[RunAnalysis, ...]:
        """The runs that are ok."""
        return tuple(run for run in self.runs if run.verdict == "ok")


@dataclass(frozen=True)
class Analysis:
    """The analysis of a data folder. schemes: in the order of the metadata."""

    data_dir: Path
    metadata: Metadata
    schemes: tuple[SchemeAnalysis, ...]

    @property
    def name(self) -> str:
        """The link's name in the metadata, or else its trace or its two ends, or else the name of the folder."""
        about = self.metadata
        if about.ccatune and about.ccatune.link:
            return about.ccatune.link
        if about.mode == "local" and about.uplink_trace:
            return about.uplink_trace
        ends = [about.local_desc, about.remote_desc]
        if about.sender_side == "remote":
            ends.reverse()
        return f"{ends[0]} to {ends[1]}" if all(ends) else self.data_dir.resolve().name

    @property
    def capacity_mbps(self) -> float | None:
        """The mean capacity over all valid runs."""
        means = [s.summary.capacity_mbps.mean for s in self.schemes if s.summary.capacity_mbps]
        return sum(means) / len(means) if means else None


def analyse(data_dir: Path, *, schemes: Sequence[str] | None = None, acks: bool = False) -> Analysis:
    """Analyse a data folder.

    schemes: the schemes to analyse; None: all. acks: also compute the statistics of the direction of the ACKs.

    Raises EmulationError if the metadata cannot be read, or a scheme is not in it. A damaged log makes only its run
    damaged.
    """
    metadata = read_metadata(data_dir)
    chosen = metadata.cc_schemes if schemes is None else tuple(schemes)
    unknown = [scheme for scheme in chosen if scheme not in metadata.cc_schemes]
    if unknown:
        raise EmulationError(f"{data_dir}: expected schemes among {', '.join(metadata.cc_schemes)}, got {unknown[0]}")
    analysed = []
    for scheme in chosen:
        runs = tuple(_analyse_run(data_dir, metadata, scheme, run, acks=acks) for run in metadata.run_ids)
        valid = [run.statistics for run in runs if run.verdict == "ok" and run.statistics]
        analysed.append(SchemeAnalysis(scheme, runs, summarise(valid)))
    return Analysis(data_dir, metadata, tuple(analysed))


def _analyse_run(data_dir: Path, metadata: Metadata, scheme: str, run: int, *, acks: bool) -> RunAnalysis:
    note = metadata.note(scheme, run)
    times = read_stats_log(log_path(data_dir, scheme=scheme, run=run, kind="stats"))
    verdict, reason, log = _read(data_dir, metadata, scheme, run, "datalink")
    statistics = run_statistics(log) if log else None
    if statistics and verdict == "ok":
        verdict, reason = _judge(statistics, metadata)
    if note and note.verdict != "ok":
        verdict, reason = "failed", f"{note.verdict}: {note.reason}" if note.reason else note.verdict
    ack_log = _read(data_dir, metadata, scheme, run, "acklink")[2] if acks else None
    return RunAnalysis(
        scheme=scheme,
        run=run,
        verdict=verdict,
        reason=reason,
        output=note.output if note else None,
        times=times,
        statistics=statistics,
        series=analyse_log(log) if log else None,
        acks=run_statistics(ack_log) if ack_log else None,
    )


def _read(
    data_dir: Path, metadata: Metadata, scheme: str, run: int, link: Literal["datalink", "acklink"]
) -> tuple[Verdict, str, TunnelLog | None]:
    """Return a verdict, its reason, and the log of one direction. For runs without a tunnel this is mm-link's log."""
    kinds: dict[str, Kind] = {"datalink": "mm_datalink", "acklink": "mm_acklink"}
    path = log_path(data_dir, scheme=scheme, run=run, kind=link if metadata.flows else kinds[link])
    if not path.is_file():
        return "missing", f"there is no {path.name}", None
    try:
        return "ok", "", read_log(path) if metadata.flows else read_link_log(path).as_tunnel()
    except EmulationError as error:
        return "damaged", str(error), None


def _judge(statistics: RunStatistics, metadata: Metadata) -> tuple[Verdict, str]:
    if statistics.total.delay_p95_ms is None:
        return "empty", "no packet left the link"
    duration_s = statistics.duration_ms / 1000
    if duration_s < LEAST_SHARE_OF_RUNTIME * metadata.runtime:
        return "too short", f"packets left during {duration_s:.2f} s of {metadata.runtime} s"
    return "ok", ""


def analyse_log(log: TunnelLog) -> Series | None:
    """Return the series over time of a log; None if the log has no event."""
    kinds = (log.capacity.times_ms, log.entered.times_ms, log.left.times_ms)
    if not any(len(times_ms) for times_ms in kinds):
        return None
    first_ms = min(float(times_ms[0]) for times_ms in kinds if len(times_ms))
    last_ms = max(float(times_ms[-1]) for times_ms in kinds if len(times_ms))
    bins = _Bins(first_ms, last_ms)
    capacity = log.capacity
    return Series(
        bin_s=BIN_MS / 1000,
        start_s=np.arange(bins.count) * BIN_MS / 1000,
        capacity_mbps=bins.rates_mbps(capacity.times_ms, capacity.bytes) if len(capacity) else None,
        flows={flow: _flow_series(log, flow, bins) for flow in log.flows},
    )


class _Bins:
    """Bins of equal length. The first one begins at the first event."""

    def __init__(self, first_ms: float, last_ms: float) -> None:
        self.first_ms = first_ms
        lasting = (last_ms - first_ms) / BIN_MS
        self.count = max(math.floor(lasting + 0.5), 1)
        self._lengths_ms = np.full(self.count, BIN_MS)
        if self.count > lasting > 0:
            self._lengths_ms[-1] = (lasting - self.count + 1) * BIN_MS

    def of(self, times_ms: Floats) -> Ints:
        """Return the number of each time's bin. It is `count` for times after the last bin."""
        return np.minimum((times_ms - self.first_ms) // BIN_MS, self.count).astype(np.int64)

    def rates_mbps(self, times_ms: Floats, size_bytes: Ints) -> Floats:
        """Return the rate in each bin. It is nan in the bins before the first and after the last event."""
        at = self.of(times_ms)
        summed = np.bincount(at, weights=size_bytes, minlength=self.count + 1)[: self.count]
        rates: Floats = summed * 8 / 1000 / self._lengths_ms
        if len(at):
            rates[: at[0]] = np.nan
            rates[at[-1] + 1 :] = np.nan
        else:
            rates[:] = np.nan
        return rates


def _flow_series(log: TunnelLog, flow: int, bins: _Bins) -> FlowSeries:
    entered, left = log.entered, log.left
    came, went = entered.flow == flow, left.flow == flow
    times_ms, delays_ms = left.times_ms[went], left.delay_ms[went]
    median_ms, p95_ms = np.full(bins.count, np.nan), np.full(bins.count, np.nan)
    longest = []
    at = bins.of(times_ms)
    edges = np.searchsorted(at, np.arange(bins.count + 1))
    for number, (first, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        if end > first:
            within = delays_ms[first:end]
            median_ms[number], p95_ms[number] = np.percentile(within, (50, 95), method="nearest")
            longest.append(first + int(within.argmax()))
    even = np.linspace(0, len(times_ms) - 1, min(len(times_ms), MOST_POINTS)).astype(np.int64)
    points = np.union1d(even, np.asarray(longest, dtype=np.int64))
    return FlowSeries(
        ingress_mbps=bins.rates_mbps(entered.times_ms[came], entered.bytes[came]),
        throughput_mbps=bins.rates_mbps(times_ms, left.bytes[went]),
        delay_median_ms=median_ms,
        delay_p95_ms=p95_ms,
        point_s=(times_ms[points] - bins.first_ms) / 1000,
        point_delay_ms=delays_ms[points],
    )


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as a JSON document, without the single packets. Values that do not exist are null."""
    return {
        "data_dir": str(analysis.data_dir),
        "link": analysis.name,
        "metadata": analysis.metadata.model_dump(mode="json", exclude_none=True),
        "capacity_mbps": analysis.capacity_mbps,
        "schemes": {
            scheme.scheme: {
                "valid_runs": len(scheme.valid_runs),
                "summary": _summary_json(scheme.summary),
                "runs": {str(run.run): _run_json(run) for run in scheme.runs},
            }
            for scheme in analysis.schemes
        },
    }


def _summary_json(summary: Summary) -> dict[str, Any]:
    document: dict[str, Any] = {
        name: asdict(value) for name, value in vars(summary).items() if isinstance(value, Spread)
    }
    if summary.flows:
        document["flows"] = {str(flow): _summary_json(its) for flow, its in summary.flows.items()}
    return document


def _run_json(run: RunAnalysis) -> dict[str, Any]:
    document: dict[str, Any] = {"verdict": run.verdict}
    document |= {"reason": run.reason} if run.reason else {}
    document |= {"output": run.output} if run.output else {}
    for name, statistics in (("statistics", run.statistics), ("acks", run.acks)):
        if statistics:
            document[name] = asdict(statistics) | {"utilization": statistics.utilization}
            document[name]["flows"] = {str(flow): asdict(traffic) for flow, traffic in statistics.flows.items()}
    if run.series:
        series, names = run.series, ("ingress_mbps", "throughput_mbps", "delay_median_ms", "delay_p95_ms")
        document["series"] = {
            "bin_s": series.bin_s,
            "capacity_mbps": _numbers(series.capacity_mbps) if series.capacity_mbps is not None else None,
            "flows": {
                str(flow): {name: _numbers(getattr(its, name)) for name in names} for flow, its in series.flows.items()
            },
        }
    return document


def _numbers(values: Floats) -> list[float | None]:
    return [round(value, 4) if math.isfinite(value) else None for value in values.tolist()]


def performance(analysis: Analysis, before: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of pantheon_perf.json.

    It has throughput, delay and loss of each valid run, for all flows together and for each flow.
    before: the file's present content. It is kept for schemes that were not analysed and for runs without a log.
    """
    found: dict[str, Any] = dict(before)
    for scheme in analysis.schemes:
        kept = before.get(scheme.scheme, {})
        runs = {
            str(run.run): {
                "all": _triple(run.statistics.total),
                **{str(flow): _triple(its) for flow, its in run.statistics.flows.items() if flow},
            }
            if run.verdict == "ok" and run.statistics
            else kept[str(run.run)]
            for run in scheme.runs
            if run.verdict == "ok" or (run.verdict == "missing" and str(run.run) in kept)
        }
        if runs or any(run.verdict != "missing" for run in scheme.runs):
            found[scheme.scheme] = runs
    return found


def _triple(traffic: Any) -> dict[str, float | None]:
    return {"tput": traffic.throughput_mbps, "delay": traffic.delay_p95_ms, "loss": traffic.loss}
