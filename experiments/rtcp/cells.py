# SPDX-License-Identifier: MIT
"""The cells of the R-TCP campaign, and the figures that all of their runs have.

    limited     sender -> policer (R, B) -> access link -> jitter -> receiver
    unlimited   sender -> a trace's link -> jitter -> (bursts of loss, in every other cycle through the buffer sizes) ->
                receiver

A cell is a set of runs with the same kind, place and algorithm. Each run gives these figures:

    retransmission_rate   retransmitted segments over sent segments
    goodput_mbps          of a file: its size over the time to its last ACK; of a download: what arrived
    complete              1: all data of the flows that have an end were acknowledged
    triggered             1: detection began (equation 2)
    ever_limited, limited 1: the client was classified as limited at any time, and at the end
    bucket_bytes, rate_mbps   the estimate at the end, in wire bytes, which the policer counts; None: no estimate

If connections follow each other, the figures are those of the last one. Concurrent connections, files that share a
limit, and videos have one row for all flows: the rate is over all their segments, and the estimate is the latest that
any of them had. A file that is not complete after 4 size / R + 30 s counts with that time.

The error of an estimate is |estimate - truth| / truth, over the runs that end as limited (equations 37 and 38).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from emulation.run.qos import LimitEstimate, QoS
from emulation.scenario.model import WIRE, Cca, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Jitter, PathElement
from experiments.campaign import Case, Links, Results, Row, Values
from experiments.figures import UNVALIDATED, Figure, share, within
from experiments.rtcp.settings import Limited, RtcpSettings

RtcpResults = Results[RtcpSettings]
Cases = Callable[[RtcpSettings, Links], Iterable[Case]]
PAIRS: dict[Cca, Cca] = {"cubic": "rtcp_cubic", "bbr": "rtcp_bbr", "bbr3": "rtcp_bbr3"}
BASES: dict[Cca, Cca] = {capped: plain for plain, capped in PAIRS.items()}
ALL: tuple[Cca, ...] = tuple(cca for pair in PAIRS.items() for cca in pair)
DETECTORS: tuple[Cca, ...] = ("rtcp_bbr", "rtcp_cubic")  # the algorithms of Tables 6 to 9
NAMES: dict[Cca, str] = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": f"BBRv3{UNVALIDATED}", "rtcp_cubic": "R-TCP-CUBIC",
                         "rtcp_bbr": "R-TCP-BBRv1", "rtcp_bbr3": f"R-TCP-BBRv3{UNVALIDATED}"}  # fmt: skip
NONE = 0.0005
LEAST_GOODPUT = 0.95
MOST_ERROR = 0.05  # largest error of R, on the map and with several objects or connections


class Cell(NamedTuple):
    """The key of a case. value: what else distinguishes it."""

    kind: str
    place: str
    cca: Cca
    value: str


def case_of(
    cell: Cell, runs: int, scenario: Callable[[int], Scenario], *, together: bool = False, every_s: float | None = None,
    more: Callable[[Scenario, QoS], Row] = lambda _scenario, _qos: {},
) -> Case:  # fmt: skip
    """A case. scenario: makes the one of a seed. together: the figures are of all flows. more: further figures."""

    def scenarios() -> list[Scenario]:
        return [scenario(seed) for seed in range(runs)]

    return Case(cell, scenarios, partial(_figures, together=together, more=more), every_s)


def _figures(scenario: Scenario, qos: QoS, *, together: bool, more: Callable[[Scenario, QoS], Row]) -> Row:
    limits = [limit for flow in (qos.flows if together else qos.flows[-1:]) for limit in flow.limits]
    known = last_estimate(limits)
    rate, goodput_mbps = (qos.retransmission_rate, qos.goodput_mbps) if together else _of_last(scenario, qos)
    ended = (not s.has_end or f.complete_s is not None for s, f in zip(scenario.flows, qos.flows, strict=True))
    return {
        "retransmission_rate": rate,
        "goodput_mbps": goodput_mbps,
        "complete": float(all(ended)),
        "triggered": float(bool(limits)),
        "ever_limited": float(any(limit.kind == "limited" for limit in limits)),
        "limited": float(is_limited(limits)),
        "bucket_bytes": None if known is None else known.bucket_bytes * WIRE,
        "rate_mbps": None if known is None else known.bytes_per_s * 8e-6 * WIRE,
        **more(scenario, qos),
    }


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


def ruled(cases: Cases, settings: RtcpSettings, links: Links) -> Iterator[Case]:
    """The cases of a part. If the settings select the paper's rules, each flow of R-TCP has its probing."""
    for case in cases(settings, links):
        yield case if settings.rules == "own" else replace(case, scenarios=partial(_with_papers, case.scenarios))


def _with_papers(scenarios: Callable[[], Sequence[Scenario]]) -> list[Scenario]:
    found = []
    for scenario in scenarios():
        flows = (flow.model_copy(update={"params": {"probing": 1, **flow.params}}) if flow.cca in BASES else flow
                 for flow in scenario.flows)  # fmt: skip
        found.append(scenario.model_copy(update={"flows": tuple(flows)}))
    return found


def last_estimate(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    """The latest estimate of all connections.

    None: there is none yet, or it was dropped. A client drops its estimate when it forgets the limiter, or when its
    flows pass several limiters.
    """
    last = _last(limits)
    return last if last is not None and last.kind in {"limited", "cleared"} else None


def is_limited(limits: Iterable[LimitEstimate]) -> bool:
    """Whether the client is classified as limited at the end."""
    last = _last(limits)
    return last is not None and last.kind == "limited"


def _last(limits: Iterable[LimitEstimate]) -> LimitEstimate | None:
    in_time = sorted(limits, key=lambda limit: limit.at_ms)
    return in_time[-1] if in_time else None


def limited_link(
    settings: RtcpSettings, policer: PathElement, *, rtt_ms: float, access_mbps: float, loss: float = 0.0
) -> LinkSpec:
    """An access link behind a policer."""
    return LinkSpec(
        rate_mbps=access_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=settings.buffer_pkts,
        loss=loss,
        before=(policer,),
        behind=(Jitter(max_ms=settings.jitter_ms),),
    )


def link_at(settings: RtcpSettings, place: Limited, *, access: int = 0) -> LinkSpec:
    """The link of an operator. access: the number of the access rate, which counts on from the first one."""
    rates = settings.access_mbps
    return limited_link(settings, place.policer, rtt_ms=place.rtt_ms, access_mbps=rates[access % len(rates)])


def one_file(settings: RtcpSettings, place: Limited, flow: FlowSpec, size_bytes: int, seed: int) -> Scenario:
    """A file behind an operator's policer."""
    most_s = 4 * size_bytes * 8e-6 / place.rate_mbps + 30
    return Scenario(link=link_at(settings, place), flows=(flow,), duration_s=most_s, seed=seed)


def hits(results: RtcpResults, cell: Cell, column: str) -> tuple[int, int]:
    """The number of a cell's runs in which a column is 1, and the number of all its runs."""
    values = results.get(cell, column)
    return int(values.sum()), len(values)


def errors(results: RtcpResults, cell: Cell, *, truth: tuple[float, float]) -> tuple[Values, Values]:
    """The errors of B and of R, over the runs that end as limited; truth: B in bytes, R in Mbit/s."""
    found = results.get(cell, "limited") == 1
    bucket, mbps = (results.get(cell, name)[found] for name in ("bucket_bytes", "rate_mbps"))
    return np.abs(bucket / truth[0] - 1), np.abs(mbps / truth[1] - 1)


def rate_errors(of_r: Values) -> list[Figure]:
    """The mean error of R, which must be at most 5 %.

    If some runs exceed 5 %, a second figure gives their share.
    """
    above = int((of_r > MOST_ERROR).sum())
    mean = within("mean error of R", of_r, most=MOST_ERROR)
    return [mean, share("> 5 % in", above, len(of_r))] if above else [mean]


def of_kind(results: RtcpResults, kind: str, value: str | None = None) -> list[Cell]:
    """The cells of a kind, and of a value unless it is None."""
    cells = [Cell(*key) for key in results.cases if key[0] == kind]
    return [cell for cell in cells if value is None or cell.value == value]
