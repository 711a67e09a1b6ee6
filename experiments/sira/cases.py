# SPDX-License-Identifier: MIT
"""The links and the cases of the campaign.

    table1, sira_h   one flow at a time over the same pieces of the links, sections III.B and V.B
    sensitivity      SIRA-H with one parameter varied, section V.D

    recorded links   whole recordings of a 3G network
    made links       a Poisson process of opportunities (emulation/traces/poisson.py). Its rate lasts for a second and
                     varies as the recorded rate does (configs/traces/cellular-3g.json). It is scaled to the mean of the
                     paper's traces and limited to their bounds

Within a second the recordings are even, and their capacity is a third less than that of the paper's links.

DEVIATION: the paper does not publish its traces, and gives neither the RTT nor the buffer. Those of the settings are
choices of this project. Its proxy is no part of the path here: the sender of the data itself runs SIRA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import OPPORTUNITY_BYTES, Recording, Trace, default_traces, read
from emulation.traces.poisson import make_poisson
from emulation.traces.synthetic import TraceModel, make_recordings
from experiments.campaign import Case, Links, Row, Values, pieces_of
from experiments.sira.settings import LinkRates, Place, SiraSettings

MADE_S, MADE_COUNT = 600.0, 8
MBPS = OPPORTUNITY_BYTES * 8e-6  # of one opportunity a second
# The rule of the simulator, and that of the paper: the rate never rises above that of the ACKs, and data that is given
# back counts once.
RULES: dict[str, dict[str, int]] = {"our rule": {}, "paper's rule": {"probing": 0, "credit_stays": 0}}
SCHEMES = {"SIRA": 0, "SIRA-H": 2}  # `compensation`
TCP = {"CUBIC": FlowSpec(cca="cubic"), "Reno": FlowSpec(cca="reno"), "Vegas": FlowSpec(cca="vegas")}


def links_of(settings: SiraSettings, paths: Sequence[Path]) -> Links:
    """The recordings, or made ones of their kind if there are none, and the links with the paper's rates."""
    found = list(paths) or default_traces()
    model = TraceModel.load(settings.model)
    slow = make_recordings(model, duration_s=MADE_S, count=MADE_COUNT, seed=1)
    recorded = slow if found is None else read(found, wanted=settings.dataset.__eq__).recordings
    return Links({"recorded": recorded, "made": with_rates(slow, settings.rates)}, made=found is None)


def with_rates(slow: Sequence[Recording], rates: LinkRates) -> list[Recording]:
    """Links whose rate in each second is that of these recordings, scaled to a mean and then limited to the bounds."""
    mean_mbps = float(np.mean([recording.trace.mean_rate_mbps for recording in slow]))
    found = []
    for number, recording in enumerate(slow):
        mbps = recording.trace.bin_counts(1000) * MBPS * rates.mean_mbps / mean_mbps
        mbps = np.clip(_smooth(mbps, rates.smooth_s), rates.least_mbps, rates.most_mbps)
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


def sira(scheme: str, rule: str, **params: int) -> FlowSpec:
    """A flow of SIRA or SIRA-H."""
    return FlowSpec(cca="sira", params={"compensation": SCHEMES[scheme], **RULES[rule], **params})


def flow_cases(settings: SiraSettings, links: Links, *, schemes: Sequence[str]) -> Iterator[Case]:
    """Each algorithm over the same pieces of each place's links; SIRA and SIRA-H with both rules."""
    for name, place in settings.places.items():
        pieces = _pieces(settings, links, place, settings.runs)
        for scheme in schemes:
            flows = {"": TCP[scheme]} if scheme in TCP else {rule: sira(scheme, rule) for rule in RULES}
            for rule, flow in flows.items():
                yield Case(("flow", name, scheme, rule), partial(_runs, settings, place, pieces, flow), figures)


def varied_cases(settings: SiraSettings, links: Links) -> Iterator[Case]:
    """SIRA-H with each value of each parameter."""
    for name, place in settings.places.items():
        pieces = _pieces(settings, links, place, settings.varied.runs)
        for rule in RULES:
            for parameter, values in settings.varied.values.items():
                for value in values:
                    runs = partial(_runs, settings, place, pieces, sira("SIRA-H", rule, **{parameter: value}))
                    yield Case(("varied", name, rule, parameter, f"{value}"), runs, figures)


def _pieces(settings: SiraSettings, links: Links, place: Place, runs: int) -> list[Recording]:
    length_s = settings.duration_s + settings.spacing_s
    return pieces_of(links.recordings[place.links], length_s=length_s, most=runs)


def _runs(settings: SiraSettings, place: Place, pieces: Sequence[Recording], flow: FlowSpec) -> list[Scenario]:
    return [
        Scenario(name=piece.name, link=LinkSpec.model_validate({"trace": piece.trace, **place.path}), flows=(flow,),
                 duration_s=settings.duration_s, seed=number)
        for number, piece in enumerate(pieces)
    ]  # fmt: skip


def figures(_scenario: Scenario, qos: QoS) -> Row:
    """The figures of Table 1 and of Fig. 3, taken at the bottleneck as in the paper."""
    return {
        "mean_ms": qos.mean_queueing_delay_ms,
        "p95_ms": qos.queueing_delay.percentile_ms(95),
        "mbps": qos.throughput_mbps,
        "utilization": qos.utilization,
    }
