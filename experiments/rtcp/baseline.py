# SPDX-License-Identifier: MIT
"""Table 8 and section 3.2: PD, the detector of Flach et al. 2016.

PD judges the packets of the unmodified algorithms, in the scenarios of detection and patterns. It does not act on what
it finds. Its runs have two more figures: policed (1: PD found a policer), and policer_mbps, its rate in wire bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from emulation.run.qos import QoS
from emulation.scenario.model import Cca, FlowSpec, Scenario
from experiments.campaign import Case, Links
from experiments.figures import Figure, Statement, share
from experiments.rtcp.cells import BASES, DETECTORS, NAMES, Cell, RtcpResults, case_of, hits, of_kind
from experiments.rtcp.detection import behind, over_trace
from experiments.rtcp.policing_detector import policed_pkts_per_s, sent_packets
from experiments.rtcp.settings import RtcpSettings
from experiments.rtcp.several import pattern

LEAST_MISSED = 0.81  # the lowest cell of Table 8
EVERY_S = 0.005  # at R of the limited operators, at most one packet passes in this time


def cases(settings: RtcpSettings, links: Links) -> Iterator[Case]:
    """Downloads at each place, and the patterns with BBRv1."""
    plain: list[Cca] = sorted(BASES[cca] for cca in DETECTORS)
    runs = settings.baseline.runs
    for place in settings.limited:
        for cca in plain:
            yield _case(
                Cell("baseline", place, cca, "limited"), runs, partial(behind, settings, place, FlowSpec(cca=cca))
            )
    for place in settings.unlimited:
        for cca in plain:
            scenario = partial(over_trace, settings, place, links.recordings[place], FlowSpec(cca=cca), runs=runs)
            yield _case(Cell("baseline", place, cca, "unlimited"), runs, scenario)
    for name in settings.patterns:
        yield _case(Cell("baseline", name, "bbr", "objects"), settings.seeds, partial(pattern, settings, name, "bbr"))


def _case(cell: Cell, runs: int, scenario: Callable[[int], Scenario]) -> Case:
    return case_of(cell, runs, scenario, every_s=EVERY_S, more=_judged)


def _judged(_scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    found = policed_pkts_per_s(sent_packets(qos, every_s=EVERY_S))
    return {"policed": float(found is not None), "policer_mbps": None if found is None else found * 1500 * 8e-6}


def downloads(
    value: str, *, least: float = 0.0, most: float = 1.0, missed: bool
) -> Callable[[RtcpResults], list[Figure]]:
    """Shares of the runs for which PD finds a policer, or misses it.

    value: the part's value (limited, unlimited, objects).
    """

    def figures(results: RtcpResults) -> list[Figure]:
        out = []
        for cell in of_kind(results, "baseline", value):
            found, of = hits(results, cell, "policed")
            counted = of - found if missed else found
            out.append(share(f"{NAMES[cell.cca]} {cell.place}", counted, of, least=least, most=most))
        return out

    return figures


BASELINE: tuple[Statement[RtcpResults], ...] = (
    Statement("K-6", "PD misses limited clients (81 to 100 %)", ">= 81 %",
              downloads("limited", least=LEAST_MISSED, missed=True)),
    Statement("K-7", "and takes none without a limit for limited (0 %)", "no run",
              downloads("unlimited", most=0.0, missed=False)),
    Statement("3.2-1", "PD does not find a limit with several objects on a connection", "no run",
              downloads("objects", most=0.0, missed=False)),
)  # fmt: skip
