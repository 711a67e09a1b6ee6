# SPDX-License-Identifier: MIT
"""The cases of the campaign, by section of the ROCCET paper.

    frozen     III      one flow for 60 s over a buffer that never overflows
    halved     IX       one flow over a link whose capacity falls to half
    recorded   VI, VII  one flow over pieces of recorded links, stationary and mobile
    share      VIII     one flow of each algorithm beside n flows of ROCCET. Each other algorithm also runs alone and
                        beside one flow of its own kind

An event is a reduction of the window by more than a tenth between two samples. The scheme `held` keeps a window of two
BDP of the first capacity for the whole run. It stands for the BBRv3 of the paper's section IX, which "does not react to
the halved bandwidth". The smoothed RTT is as in RFC 6298, taken from the sender's own timer every 20 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from emulation.run.qos import QoS
from emulation.scenario.model import MSS_BYTES, Cca, FlowSpec, Scenario
from emulation.scenario.path import Jitter
from experiments.campaign import Case, Links, Row, Values, over_pieces, pieces_of
from experiments.roccet.settings import LinksSettings, RoccetSettings, bdp_pkts, named_scenarios

# HyStart is CUBIC's default, but the paper switches it off for its measurements. Section III is judged with both.
SCHEMES: dict[str, FlowSpec] = {
    "roccet": FlowSpec(cca="roccet"),
    "cubic": FlowSpec(cca="cubic", params={"hystart": 0}),
    "cubic-hystart": FlowSpec(cca="cubic"),
    "bbr": FlowSpec(cca="bbr"),
    "bbr3": FlowSpec(cca="bbr3"),
}
SERIES_EVERY_S = 0.02
# A run keeps these quantiles of its samples, so that all runs have the same weight when their samples are pooled.
QUANTILES: Values = (np.arange(100) + 0.5) / 100
RIVALS = ("cubic", "bbr", "bbr3")
OTHERS: tuple[Cca, ...] = ("cubic", "bbr", "bbr3")
ROCCET: tuple[Cca, ...] = ("roccet",)
FIRSTS: tuple[Cca, ...] = (*OTHERS, "roccet")  # algorithms of the one flow beside the others
HELD_BDP = 2
KINDS = ("stationary", "mobile")


def column(qos: QoS, name: str, start_s: float, end_s: float) -> Values:
    """A column of the first flow's samples in (start_s, end_s]."""
    time_s, flow = qos.series["time_s"], qos.series["flow"]
    values: Values = qos.series[name][(flow == 0) & (time_s > start_s + 1e-9) & (time_s <= end_s + 1e-9)]
    return values


def _seeded(settings: RoccetSettings, scenario: Scenario) -> list[Scenario]:
    return [scenario.model_copy(update={"seed": seed}) for seed in range(settings.seeds)]


# --- III -------------------------------------------------------------------------------------------------------------


def frozen_cases(settings: RoccetSettings, _links: Links | None = None) -> Iterator[Case]:
    (scenario,) = named_scenarios((settings.frozen.scenario,)).values()
    receiver = scenario.flows[0].receiver
    for name in ("roccet", "cubic", "cubic-hystart"):
        flow = SCHEMES[name].model_copy(update={"receiver": receiver})
        runs = partial(_seeded, settings, scenario.model_copy(update={"flows": (flow,)}))
        yield Case(("frozen", name), runs, partial(_frozen_figures, settings.frozen.settled_s), SERIES_EVERY_S)


def _frozen_figures(settled_s: float, scenario: Scenario, qos: QoS) -> Row:
    windows_pkts = column(qos, "cwnd_pkts", settled_s, scenario.duration_s)
    return {
        "window_bdp": float(np.median(windows_pkts)) / bdp_pkts(scenario),
        "window_change": float(np.ptp(windows_pkts) / np.median(windows_pkts)),
        "rtt_ms": float(np.median(column(qos, "smoothed_rtt_ms", settled_s, scenario.duration_s))),
        "goodput_mbps": _goodput_mbps(qos, settled_s, scenario.duration_s),
    }


def _goodput_mbps(qos: QoS, from_s: float, to_s: float) -> float:
    """The payload that left the bottleneck.

    Nothing is lost after the bottleneck, so that each segment leaves it once even if it was retransmitted.
    """
    return float(column(qos, "rate_mbps", from_s, to_s).mean()) * MSS_BYTES / 1500


# --- IX --------------------------------------------------------------------------------------------------------------


def halved_cases(settings: RoccetSettings, _links: Links | None = None) -> Iterator[Case]:
    for name, scenario in named_scenarios(settings.halved.scenarios).items():
        held_pkts = round(HELD_BDP * bdp_pkts(scenario))
        flows = {
            **{scheme: SCHEMES[scheme] for scheme in ("roccet", *RIVALS)},
            "held": FlowSpec(cca="fixed", params={"cwnd_pkts": held_pkts}),
        }
        for products in settings.halved.buffers_bdp:
            link = scenario.link.model_copy(update={"buffer_pkts": round(products * bdp_pkts(scenario))})
            for scheme, flow in flows.items():
                runs = partial(_seeded, settings, scenario.model_copy(update={"link": link, "flows": (flow,)}))
                measure = partial(_halved_figures, settings.halved.settled_s)
                yield Case(("halved", name, f"{products:g}", scheme), runs, measure, SERIES_EVERY_S)


def _halved_figures(settled_s: float, scenario: Scenario, qos: QoS) -> Row:
    change_s, end_s = scenario.link.steps[1].at_s, scenario.duration_s
    before, after = (settled_s, change_s), (change_s + 1, end_s)
    windows_pkts = column(qos, "cwnd_pkts", change_s, end_s)
    events = np.flatnonzero(windows_pkts[1:] < 0.9 * windows_pkts[:-1]) * SERIES_EVERY_S
    rtts_ms = column(qos, "smoothed_rtt_ms", *after)
    return {
        "rtt_before_ms": float(np.median(column(qos, "smoothed_rtt_ms", *before))),
        "rtt_after_ms": float(np.median(rtts_ms)),
        "goodput_before_mbps": _goodput_mbps(qos, *before),
        "goodput_after_mbps": _goodput_mbps(qos, change_s, end_s),
        "window_before_pkts": float(np.median(column(qos, "cwnd_pkts", *before))),
        "window_last_pkts": float(np.median(column(qos, "cwnd_pkts", end_s - 5, end_s))),
        "events_at_once": int((events <= 2).sum()),
        "events_later": int((events > 5).sum()),
    }


# --- VI, VII ---------------------------------------------------------------------------------------------------------


def recorded_cases(settings: RoccetSettings, links: Links) -> Iterator[Case]:
    """Each algorithm over the same pieces of both kinds of links."""
    for kind in KINDS:
        its: LinksSettings = getattr(settings.recorded, kind)
        pieces = pieces_of(links.recordings[kind], length_s=its.duration_s, most=its.runs)
        path = {"rtt_ms": its.rtt_ms, "buffer_pkts": its.buffer_pkts, "behind": (Jitter(max_ms=its.jitter_ms),)}
        for scheme in ("roccet", *RIVALS):
            runs = partial(over_pieces, pieces, SCHEMES[scheme], path=path, duration_s=its.duration_s)
            yield Case(("recorded", kind, scheme), runs, _recorded_figures, SERIES_EVERY_S)


def _recorded_figures(scenario: Scenario, qos: QoS) -> Row:
    rtts_ms = column(qos, "smoothed_rtt_ms", 0, scenario.duration_s)
    return {
        "goodput_mbps": qos.goodput_mbps,
        "rtts_ms": np.quantile(rtts_ms[rtts_ms > 0], QUANTILES).tolist(),
        "rtt_max_ms": float(rtts_ms.max()),
    }


# --- VIII ------------------------------------------------------------------------------------------------------------


def share_cases(settings: RoccetSettings, _links: Links | None = None) -> Iterator[Case]:
    share = settings.share
    for name, base in named_scenarios(share.scenarios).items():
        for products in share.buffers_bdp:
            link = base.link.model_copy(update={"buffer_pkts": round(products * bdp_pkts(base))})
            for cca in FIRSTS:
                crowds: dict[str, tuple[Cca, ...]] = {f"beside-{n}": ROCCET * n for n in share.roccet_flows}
                if cca != "roccet":
                    crowds |= {"alone": (), "beside-itself": (cca,)}
                for crowd, others in crowds.items():
                    scenario = base.model_copy(update={"link": link})
                    runs = partial(_shared, settings, scenario, (cca, *others))
                    yield Case(("share", name, f"{products:g}", cca, crowd), runs, _share_figures)


def _shared(settings: RoccetSettings, scenario: Scenario, ccas: Sequence[Cca]) -> list[Scenario]:
    """The runs of these flows, one for each seed. Each flow starts at a random time within start_within_s."""
    runs = []
    for seed in range(settings.seeds):
        starts_s = np.random.default_rng(seed).uniform(0, settings.share.start_within_s, len(ccas))
        flows = tuple(FlowSpec(cca=cca, start_s=float(at)) for cca, at in zip(ccas, starts_s, strict=True))
        runs.append(scenario.model_copy(update={"flows": flows, "seed": seed}))
    return runs


def _share_figures(_scenario: Scenario, qos: QoS) -> Row:
    first = qos.flows[0]
    return {
        "goodput_mbps": first.goodput_mbps,
        "share": qos.bandwidth_shares[0],
        "rtt_p95_ms": first.rtt.percentile_ms(95),
    }
