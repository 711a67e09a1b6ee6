# SPDX-License-Identifier: MIT
"""Runs R-TCP, its base algorithms, and another policer detector, and keeps a row of figures for each run.

    files, detection, patterns   files, downloads with and without a limit, patterns of objects on a connection
    map                          token buckets over B and R
    probing                      files, by how often and how high R-TCP probes the cap
    second, concurrent           several connections of a client (clients.py)
    lifted, freed, kept          a limit that is raised, that ends or that stays (clients.py)
    fairness                     two files that share a limit (sharing.py)
    video                        videos (video.py)
    baseline                     unmodified algorithms, whose packets the detector of policing_detector.py judges in the
                                 scenarios of detection and patterns

    limited     sender -> policer (R, B) -> access link -> jitter -> receiver
    unlimited   sender -> a trace's link -> jitter -> (bursts of loss, in every other cycle through the buffer sizes) ->
                receiver

A part is a set of runs that are stored together. Each run gives a row of COLUMNS:

    retransmission_rate   retransmitted segments over sent segments
    goodput_mbps          of a file: its size over the time to its last ACK; of a download: what arrived
    complete              1: all data of the flows that have an end were acknowledged
    triggered             1: detection began (equation 2)
    ever_limited, limited 1: the client was classified as limited at any time, and at the end
    bucket_bytes, rate_mbps   the estimate at the end, in wire bytes, which the policer counts; None: no estimate
    speed_mbps, regained_s    for a limit that is raised (lifted)
    SHARING_COLUMNS   for fairness only
    policed, policer_mbps     for baseline only. 1: the detector found a policer; its rate in wire bytes
    VIDEO_COLUMNS     for video only

The places of `lifted` are the limit of Appendix H ("limit") and a grid of rates and RTTs. If connections follow each
other, the row is that of the second one. Concurrent connections, files that share a limit, and videos have one row for
all flows: the rate is over all their segments, and the estimate is the latest that any of them had.

A file that is not complete after 4 size / R + 30 s counts with that time. Runs without a limit start at places that are
spread evenly over the recorded traces. A trace that ends begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from emulation.run.qos import QoS
from emulation.run.simulator import default_threads, simulate, simulate_many
from emulation.scenario.model import WIRE, Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import GilbertElliott, Jitter, Policer
from emulation.traces import Recording, place_of
from experiments.rtcp import clients, policing_detector, sharing, video
from experiments.rtcp.limits import is_limited, last_estimate
from experiments.rtcp.settings import Limited, RtcpSettings
from training.intervals import LEAST_SEEDS, interval_of

__all__ = [
    "COLUMNS", "FIGURES_VERSION", "KINDS", "PAIRS", "Kind", "Part", "Results", "columns_of", "parts_of", "probing_part",
    "run_part", "scenarios_of", "summary_of",
]  # fmt: skip

Kind = Literal[
    "files", "detection", "map", "patterns", "second", "concurrent", "lifted", "freed", "kept", "probing", "fairness",
    "baseline", "video",
]  # fmt: skip
Values = NDArray[np.float64]

KINDS: tuple[Kind, ...] = get_args(Kind)
FIGURES_VERSION = 2  # version of a row's content; parts stored under another version are run again
PAIRS: dict[Cca, Cca] = {"cubic": "rtcp_cubic", "bbr": "rtcp_bbr", "bbr3": "rtcp_bbr3"}
DETECTORS: tuple[Cca, ...] = ("rtcp_bbr", "rtcp_cubic")  # the algorithms of Tables 6 to 9
# Pairs of a first flow and the flow that joins it.
MEETINGS: tuple[tuple[Cca, Cca], ...] = (("bbr", "rtcp_bbr"), ("rtcp_bbr", "bbr"), ("bbr", "bbr"))
BASELINE_COLUMNS = ("policed", "policer_mbps")
BASELINE_EVERY_S = 0.005  # at R of the limited operators, at most one packet passes in this time
EAGER = {"trigger_rounds": 1, "trigger_loss_permille": 10}  # the lowest setting of the trigger
COLUMNS = (
    "retransmission_rate", "goodput_mbps", "complete", "triggered", "ever_limited", "limited", "bucket_bytes",
    "rate_mbps", "speed_mbps", "regained_s",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Runs that are stored together.

    They have the same kind, place and algorithm. value: what else distinguishes the part.
    """

    kind: Kind
    place: str
    cca: Cca
    value: str

    @property
    def name(self) -> str:
        """The name in the journal: a-z, 0-9 and dashes."""
        return f"{self.kind}-{self.place}-{self.cca}-{self.value}".replace("_", "-").replace(".", "p")


@dataclass(frozen=True, eq=False)
class Results:
    """The columns of the parts that were run. recorded: whether their traces were recorded, not synthetic."""

    settings: RtcpSettings
    parts: dict[Part, dict[str, list[float | None]]]
    recorded: bool = False

    def column(self, part: Part, name: str) -> Values:
        """A column of a part: float [runs]; NaN: the run has no such figure."""
        return np.array([np.nan if value is None else value for value in self.parts[part][name]])

    def has(self, kind: Kind) -> bool:
        """Whether a part of that kind was run."""
        return any(part.kind == kind for part in self.parts)


def columns_of(kind: Kind) -> tuple[str, ...]:
    """The columns of a part of that kind."""
    of_kind = {"fairness": sharing.SHARING_COLUMNS, "baseline": BASELINE_COLUMNS, "video": video.VIDEO_COLUMNS}
    return (*COLUMNS, *of_kind.get(kind, ()))


def probing_part(place: str, cca: Cca, at: tuple[int, int]) -> Part:
    """The part of a file with probes every eta rounds that exceed the cap by gamma; at: eta, gamma in permille."""
    return Part("probing", place, cca, f"{at[0]}-{at[1]}")


def parts_of(settings: RtcpSettings, kinds: Sequence[Kind] = KINDS) -> list[Part]:
    """The parts of these kinds, in the order in which they run."""
    files = [
        Part("files", place, cca, str(size))
        for place in settings.limited for pair in PAIRS.items() for cca in pair for size in settings.sizes_bytes
    ]  # fmt: skip
    detection = [Part("detection", place, cca, "limited") for place in settings.limited for cca in DETECTORS]
    for place, unlimited in settings.unlimited.items():
        values = ("unlimited", "eager") if unlimited.moving else ("unlimited",)
        detection += [Part("detection", place, cca, value) for cca in DETECTORS for value in values]
    grid = [
        Part("map", f"{bucket}", "rtcp_bbr", f"{rate:g}")
        for bucket in settings.map.buckets_bytes for rate in settings.map.rates_mbps
    ]  # fmt: skip
    patterns = [Part("patterns", name, cca, "objects") for name in settings.patterns for cca in PAIRS.values()]
    probing = [
        probing_part(place, cca, at)
        for cca in DETECTORS for place in settings.probing.limited for at in settings.probing.cells
    ]  # fmt: skip
    fairness = [Part("fairness", settings.fairness.limited, first, second) for first, second in MEETINGS]
    parts = [
        *files, *detection, *grid, *patterns, *_client_parts(settings), *probing, *fairness, *_baselines(settings),
    ]  # fmt: skip
    return [part for part in parts if part.kind in kinds]


def _baselines(settings: RtcpSettings) -> list[Part]:
    """Parts in which the detector observes unmodified algorithms, and does not act on what it finds."""
    plain: tuple[Cca, ...] = tuple(cca for cca, capped in PAIRS.items() if capped in DETECTORS)
    places = [(place, "limited") for place in settings.limited] + [(p, "unlimited") for p in settings.unlimited]
    downloads = [Part("baseline", place, cca, value) for place, value in places for cca in plain]
    return [*downloads, *(Part("baseline", name, "bbr", "objects") for name in settings.patterns)]


def _client_parts(settings: RtcpSettings) -> list[Part]:
    pairs = [cca for pair in PAIRS.items() for cca in pair]
    second = [Part("second", settings.second.limited, cca, str(size)) for cca in pairs for size in settings.sizes_bytes]
    second += [
        Part("second", settings.second.limited, cca, f"{size}{clients.APART}")
        for cca in PAIRS.values() for size in settings.sizes_bytes
    ]  # fmt: skip
    concurrent = [Part("concurrent", name, cca, "objects") for name in settings.concurrent for cca in pairs]
    lifted = [Part("lifted", "limit", cca, f"{100 * loss:g}") for cca in pairs for loss in settings.lifted.losses]
    grid = settings.lifted.grid
    lifted += [
        Part("lifted", f"{rate:g}-{rtt:g}", cca, f"{100 * loss:g}")
        for cca in pairs for loss in settings.lifted.losses for rate in grid.rates_mbps for rtt in grid.rtts_ms
    ]  # fmt: skip
    free = settings.freed
    lifted += [Part(kind, f"{rate:g}", cca, f"{rtt:g}")
               for kind in ("freed", "kept") for cca in pairs for rate in free.rates_mbps
               for rtt in free.rtts_ms]  # fmt: skip
    videos = [Part("video", place, cca, abr) for place in settings.limited for cca in pairs
              for abr in settings.video.abrs]  # fmt: skip
    return [*second, *concurrent, *lifted, *videos]


def scenarios_of(settings: RtcpSettings, part: Part, recordings: Sequence[Recording] = ()) -> list[Scenario]:
    """The scenarios of a part. recordings: of its place, if the place has no limit."""
    if part.kind == "files":
        return [_file(settings, part, seed=seed) for seed in range(settings.seeds)]
    if part.value == "objects" and part.kind in {"patterns", "baseline"}:
        return [_pattern(settings, part, seed=seed) for seed in range(settings.seeds)]
    if part.kind == "probing":
        return [_probing(settings, part, seed=seed) for seed in range(settings.probing.runs)]
    if part.kind in {"second", "concurrent", "lifted", "freed", "kept", "fairness", "video"}:
        return [_of_client(settings, part, seed=seed) for seed in range(_client_runs(settings, part))]
    if part.kind == "map":
        return [_of_map(settings, part, seed=seed) for seed in range(settings.map.runs)]
    runs = settings.baseline.runs if part.kind == "baseline" else settings.runs
    if part.value == "limited":
        return [_limited_download(settings, part, seed=seed) for seed in range(runs)]
    return [_unlimited_download(settings, part, recordings, share=seed / runs, seed=seed) for seed in range(runs)]


def _client_runs(settings: RtcpSettings, part: Part) -> int:
    if part.kind in {"freed", "kept"}:
        return settings.freed.runs
    of_grid = part.kind == "lifted" and clients.cell(part.place) is not None
    return settings.lifted.grid.runs if of_grid else settings.seeds


def run_part(
    settings: RtcpSettings, part: Part, recordings: Sequence[Recording] = (), *, threads: int | None = None
) -> dict[str, list[float | None]]:
    """Run a part; its columns (`columns_of`) with a value for each run, as JSON data."""
    scenarios = scenarios_of(settings, part, recordings)
    every_s = {"fairness": sharing.EVERY_S, "baseline": BASELINE_EVERY_S}.get(part.kind)
    if every_s is None:
        found = simulate_many(scenarios, threads=threads)
        rows = [_row(settings, part, scenario, qos) for scenario, qos in zip(scenarios, found, strict=True)]
    else:  # a series is large, so that only its row is kept
        with ThreadPoolExecutor(threads or default_threads()) as pool:
            rows = list(pool.map(lambda s: _row(settings, part, s, simulate(s, series_every_s=every_s)), scenarios))
    return {name: [row[name] for row in rows] for name in columns_of(part.kind)}


# --- scenarios -------------------------------------------------------------------------------------------------------


def _limited_link(settings: RtcpSettings, policer: Policer, *, rtt_ms: float, access_mbps: float) -> LinkSpec:
    return LinkSpec(
        rate_mbps=access_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=settings.buffer_pkts,
        before=(policer,),
        behind=(Jitter(max_ms=settings.jitter_ms),),
    )


def _at(settings: RtcpSettings, place: Limited, *, access: int = 0) -> LinkSpec:
    rates = settings.access_mbps
    return _limited_link(settings, place.policer, rtt_ms=place.rtt_ms, access_mbps=rates[access % len(rates)])


def _file(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    flow = FlowSpec(cca=part.cca, size_bytes=int(part.value))
    return _alone(settings, part, flow, size_bytes=int(part.value), seed=seed)


def _probing(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    every_rounds, gain_permille = map(int, part.value.split("-"))
    params = {"probe_every_rounds": every_rounds, "probe_gain_permille": gain_permille}
    size_bytes = settings.probing.size_bytes
    flow = FlowSpec(cca=part.cca, size_bytes=size_bytes, params=params)
    return _alone(settings, part, flow, size_bytes=size_bytes, seed=seed)


def _alone(settings: RtcpSettings, part: Part, flow: FlowSpec, *, size_bytes: int, seed: int) -> Scenario:
    place = settings.limited[part.place]
    most_s = 4 * size_bytes * 8e-6 / place.rate_mbps + 30
    return Scenario(name=part.name, link=_at(settings, place), flows=(flow,), duration_s=most_s, seed=seed)


def _pattern(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    pattern = settings.patterns[part.place]
    place = settings.limited[pattern.limited]
    flow = FlowSpec(cca=part.cca, transfers=pattern.transfers)
    size = sum(transfer.size_bytes * transfer.count for transfer in pattern.transfers)
    idle_s = sum(transfer.gap_s * transfer.count for transfer in pattern.transfers)
    most_s = 4 * size * 8e-6 / place.rate_mbps + idle_s + 30
    return Scenario(name=part.name, link=_at(settings, place), flows=(flow,), duration_s=most_s, seed=seed)


def _of_client(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    if part.kind == "lifted":
        scenario = clients.lifted(settings, part.cca, part.place, part.value, seed=seed)
    elif part.kind == "freed":
        scenario = clients.freed(settings, part.cca, part.place, part.value, seed=seed)
    elif part.kind == "kept":
        scenario = clients.kept(settings, part.cca, part.place, part.value, seed=seed)
    elif part.kind == "video":
        link = _at(settings, settings.limited[part.place])
        scenario = video.scenario_of(settings, link, part.place, part.cca, part.value, seed=seed)
    elif part.kind in {"second", "fairness"}:
        link = _at(settings, settings.limited[part.place])
        of_kind = clients.second if part.kind == "second" else sharing.sharing
        scenario = of_kind(settings, link, part.cca, part.value, seed=seed)
    else:
        link = _at(settings, settings.limited[settings.concurrent[part.place].limited])
        scenario = clients.concurrent(settings, link, part.cca, part.place, seed=seed)
    return scenario.model_copy(update={"name": part.name})


def _of_map(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    policer = Policer(rate_mbps=float(part.value), bucket_bytes=int(part.place))
    link = _limited_link(settings, policer, rtt_ms=settings.map.rtt_ms, access_mbps=max(settings.access_mbps))
    flows = (FlowSpec(cca=part.cca),)
    return Scenario(name=part.name, link=link, flows=flows, duration_s=settings.download_s, seed=seed)


def _limited_download(settings: RtcpSettings, part: Part, *, seed: int) -> Scenario:
    link, flows = _at(settings, settings.limited[part.place], access=seed), (FlowSpec(cca=part.cca),)
    return Scenario(name=part.name, link=link, flows=flows, duration_s=settings.download_s, seed=seed)


def _unlimited_download(
    settings: RtcpSettings, part: Part, recordings: Sequence[Recording], *, share: float, seed: int
) -> Scenario:
    recording, start_ms = place_of(recordings, share=share)
    buffers = settings.buffers_pkts
    lossy = seed // len(buffers) % 2 == 1
    behind = (Jitter(max_ms=settings.jitter_ms), *((GilbertElliott(**settings.burst.model_dump()),) if lossy else ()))
    link = LinkSpec(
        trace=recording.trace,
        start_ms=start_ms,
        rtt_ms=settings.unlimited[part.place].rtt_ms,
        buffer_pkts=buffers[seed % len(buffers)],
        behind=behind,
    )
    flows = (FlowSpec(cca=part.cca, params=EAGER if part.value == "eager" else {}),)
    return Scenario(name=part.name, link=link, flows=flows, duration_s=settings.download_s, seed=seed)


# --- results ---------------------------------------------------------------------------------------------------------


def _of_last(scenario: Scenario, qos: QoS) -> tuple[float | None, float | None]:
    """The last connection's retransmission rate, and its goodput in Mbit/s.

    The goodput of a file counts from the file's start. None: the file did not begin.
    """
    flow, spec = qos.flows[-1], scenario.flows[-1]
    if spec.size_bytes is None:
        return flow.retransmission_rate, flow.goodput_mbps
    if not flow.transfers:
        return None, None
    seconds = (flow.complete_s or scenario.duration_s) - flow.transfers[0].start_s
    return flow.retransmission_rate, spec.size_bytes * 8e-6 / seconds


def _row(settings: RtcpSettings, part: Part, scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    together = part.kind in {"concurrent", "fairness", "video"}
    flows = qos.flows if together else qos.flows[-1:]
    limits = [limit for flow in flows for limit in flow.limits]
    known = last_estimate(limits)
    lifted = clients.regained(settings.lifted, qos) if part.kind == "lifted" else dict.fromkeys(COLUMNS[-2:])
    resent, goodput_mbps = (qos.retransmission_rate, qos.goodput_mbps) if together else _of_last(scenario, qos)
    return {
        "retransmission_rate": resent,
        "goodput_mbps": goodput_mbps,
        "complete": float(all(not s.has_end or f.complete_s is not None
                              for s, f in zip(scenario.flows, qos.flows, strict=True))),
        "triggered": float(bool(limits)),
        "ever_limited": float(any(limit.kind == "limited" for limit in limits)),
        "limited": float(is_limited(limits)),
        "bucket_bytes": None if known is None else known.bucket_bytes * WIRE,
        "rate_mbps": None if known is None else known.bytes_per_s * 8e-6 * WIRE,
        **lifted,
        **(sharing.shared(settings, scenario, qos) if part.kind == "fairness" else {}),
        **(_baseline(qos) if part.kind == "baseline" else {}),
        **(video.watched(qos) if part.kind == "video" else {}),
    }  # fmt: skip


def _baseline(qos: QoS) -> dict[str, float | None]:
    found = policing_detector.policed_pkts_per_s(policing_detector.sent_packets(qos, every_s=BASELINE_EVERY_S))
    return {"policed": float(found is not None), "policer_mbps": None if found is None else found * 1500 * 8e-6}


def summary_of(results: Results) -> list[dict[str, Any]]:
    """The means of each part, with the half width of their 95 % interval in `..._interval`, as JSON data.

    Both leave out the runs without such a figure. Fewer than five values have no interval.
    """
    rows = []
    for part in results.parts:
        columns = {name: results.column(part, name) for name in columns_of(part.kind)}
        means = {name: float(np.nanmean(v)) if np.isfinite(v).any() else None for name, v in columns.items()}
        halves = {f"{name}_interval": interval_of(v[np.isfinite(v)]) if np.isfinite(v).sum() >= LEAST_SEEDS else None
                  for name, v in columns.items()}  # fmt: skip
        rows.append({"kind": part.kind, "place": part.place, "cca": part.cca, "value": part.value,
                     "runs": len(columns["complete"]), **means, **halves})  # fmt: skip
    return rows
