# SPDX-License-Identifier: MIT
"""The links and the cases of the campaign.

    table1, sira_h   one flow at a time over the same pieces of the links, sections III.B and V.B
    sensitivity      SIRA-H with one parameter varied, section V.D

    recorded links   whole recordings of a 3G network
    made links       a Poisson process of opportunities, whose rate changes from second to second as that of a made link
                     of this network does. It is scaled to the mean of the paper's traces, smoothed until it varies as
                     little as they do, and limited to their bounds

A Poisson process of 6.92 Mbit/s varies over 100 ms nearly as the paper's traces do. The recordings do not vary within a
second, and have less capacity than the paper's links.

DEVIATION: the traces of the paper are not available, and it gives neither the RTT nor the buffer. Those of the settings
are choices of this project. The paper's proxy is no part of the path here: the sender of the data itself runs SIRA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, Scenario
from emulation.traces import OPPORTUNITY_BYTES, Recording, Trace, default_traces, read
from emulation.traces.poisson import make_poisson
from experiments.campaign import Case, Links, Row, Values, made_like, over_pieces, pieces_of
from experiments.sira.settings import LinkRates, Place, SiraSettings

MBPS = OPPORTUNITY_BYTES * 8e-6  # of one opportunity a second
# What moves the rate of SIRA-H besides the ACKs (kmod/core/sira.h):
#
#   ours    data that was not sent is given back up to the link's rate, and a rate that leaves the queue short rises
#   text    the same data counts as ACKs, section IV.B: once for each interval of the sliding window
#   eq. 9   it counts in one interval, which gives back 1/M of it
RULES: dict[str, dict[str, int]] = {
    "ours": {}, "text": {"probing": 0, "credit_stays": 1}, "eq. 9": {"probing": 0, "credit_stays": 0},
}  # fmt: skip
TCP = ("CUBIC", "Reno", "Vegas")
SIRA, SIRA_H = "SIRA", "SIRA-H"
FLOWS = {
    **{name: FlowSpec(cca=name.lower()) for name in TCP},
    SIRA: FlowSpec(cca="sira", params={"compensation": 0, "probing": 0}),
    **{f"{SIRA_H}, {rule}": FlowSpec(cca="sira", params=params) for rule, params in RULES.items()},
}


def links_of(settings: SiraSettings, paths: Sequence[Path]) -> Links:
    """The recordings, or made ones of their kind if there are none, and the links with the paper's rates."""
    found = list(paths) or default_traces()
    slow = made_like(settings.model)
    recorded = slow if found is None else read(found, wanted=settings.dataset.__eq__).recordings
    return Links({"recorded": recorded, "made": with_rates(slow, settings.rates)}, made=found is None)


def with_rates(slow: Sequence[Recording], rates: LinkRates) -> list[Recording]:
    """Links whose rate in each second is that of these recordings, scaled, smoothed and then limited to the bounds."""
    mean_mbps = float(np.mean([recording.trace.mean_rate_mbps for recording in slow]))
    found = []
    for number, recording in enumerate(slow):
        scaled = recording.trace.bin_counts(1000).astype(np.float64) * MBPS * rates.mean_mbps / mean_mbps
        mbps = np.clip(_smooth(scaled, rates.smooth_s), rates.least_mbps, rates.most_mbps)
        # A Poisson process of which each point is kept with a probability is one with the rate times this probability.
        fast = make_poisson(rates.most_mbps, duration_s=len(mbps), seed=number)
        seconds = np.minimum(fast.opportunities_ms // 1000, len(mbps) - 1)
        kept = np.random.default_rng(number).random(len(seconds)) < mbps[seconds] / rates.most_mbps
        trace = Trace(f"paper-{number}", fast.opportunities_ms[kept], fast.period_ms)
        found.append(Recording(trace.name, "made", trace, (), (trace.name,)))
    return found


def _smooth(values: Values, width: int) -> Values:
    """Means over so many neighbours; the ends repeat their values."""
    padded = np.pad(values, (width // 2, width - 1 - width // 2), mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


def flow_cases(settings: SiraSettings, links: Links, *, names: Iterable[str]) -> Iterator[Case]:
    """Each of these flows over the same pieces of each place's links."""
    for at, place in settings.places.items():
        pieces = _pieces(settings, links, place, settings.runs)
        runs = partial(over_pieces, pieces, path=place.path, duration_s=settings.duration_s)
        for name in names:
            yield Case(("flow", at, name), partial(runs, FLOWS[name]), figures)


def varied_cases(settings: SiraSettings, links: Links) -> Iterator[Case]:
    """SIRA-H with each value of each parameter, by each rule."""
    for at, place in settings.places.items():
        pieces = _pieces(settings, links, place, settings.varied.runs)
        runs = partial(over_pieces, pieces, path=place.path, duration_s=settings.duration_s)
        for rule, params in RULES.items():
            for parameter, values in settings.varied.values.items():
                for value in values:
                    flow = FlowSpec(cca="sira", params={**params, parameter: value})
                    yield Case(("varied", at, rule, parameter, f"{value}"), partial(runs, flow), figures)


def _pieces(settings: SiraSettings, links: Links, place: Place, runs: int) -> list[Recording]:
    length_s = settings.duration_s + settings.spacing_s
    return pieces_of(links.recordings[place.links], length_s=length_s, most=runs)


def figures(_scenario: Scenario, qos: QoS) -> Row:
    """The figures of Table 1 and of Fig. 3, taken at the bottleneck as in the paper."""
    return {
        "mean_ms": qos.mean_queueing_delay_ms,
        "p95_ms": qos.queueing_delay.percentile_ms(95),
        "mbps": qos.throughput_mbps,
        "utilization": qos.utilization,
    }
