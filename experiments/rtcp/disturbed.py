# SPDX-License-Identifier: MIT
"""Downloads without a limit over disturbed paths: how often R-TCP takes the client for limited.

A disturbed path bunches packets or ACKs, loses packets, or has an unusual RTT or queue. Its delivery can follow a line
B + R t for a while. The downloads over a path start at places that are spread evenly over the traces. Each path has
places of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import Recording, place_of
from experiments.campaign import Case, Links
from experiments.figures import Figure, Statement, markdown_table, share
from experiments.rtcp.cells import NAMES, PAIRS, Cell, RtcpResults, case_of, hits, of_kind
from experiments.rtcp.detection import MOST_FALSE
from experiments.rtcp.settings import Disturbed, RtcpSettings


def cases(settings: RtcpSettings, links: Links) -> Iterator[Case]:
    """Downloads of each algorithm over each path and link."""
    for path in settings.disturbed.paths:
        for place in settings.disturbed.links:
            for cca in PAIRS.values():
                cell = Cell("disturbed", place, cca, path)
                scenario = partial(_over_path, settings.disturbed, cell, links.recordings[place])
                yield case_of(cell, settings.disturbed.runs, scenario)


def _over_path(disturbed: Disturbed, cell: Cell, recordings: Sequence[Recording], seed: int) -> Scenario:
    number = list(disturbed.paths).index(cell.value)
    share_of_time = (seed + number / len(disturbed.paths)) / disturbed.runs
    recording, start_ms = place_of(recordings, share=share_of_time)
    fields = {"rtt_ms": disturbed.links[cell.place].rtt_ms, **disturbed.paths[cell.value]}
    link = LinkSpec.model_validate({"trace": recording.trace, "start_ms": start_ms, **fields})
    return Scenario(link=link, flows=(FlowSpec(cca=cell.cca),), duration_s=disturbed.download_s, seed=seed)


def _falsely(results: RtcpResults) -> list[Figure]:
    """The share of an algorithm's downloads that were classified as limited at any time."""
    figures = []
    for cca in PAIRS.values():
        counts = [hits(results, cell, "ever_limited") for cell in of_kind(results, "disturbed") if cell.cca == cca]
        found, of = (sum(count) for count in zip(*counts, strict=True))
        figures.append(share(NAMES[cca], found, of, most=MOST_FALSE))
    return figures


DISTURBED: tuple[Statement[RtcpResults], ...] = (
    Statement("issue-3", "Clients without a limit, over disturbed paths, that are taken for limited at any time",
              "<= 0.5 %", _falsely),
)  # fmt: skip


def paths_table(results: RtcpResults) -> list[str]:
    """The runs that were classified as limited at any time, and those still limited at the end, by path."""
    rows = []
    for path in results.settings.disturbed.paths:
        cells = of_kind(results, "disturbed", path)
        row = [path]
        for cca in PAIRS.values():
            ever, last = (
                [hits(results, cell, column) for cell in cells if cell.cca == cca]
                for column in ("ever_limited", "limited")
            )
            row.append(f"{sum(n for n, _ in ever)}, {sum(n for n, _ in last)} of {sum(of for _, of in ever)}")
        rows.append(tuple(row))
    return markdown_table(("path", *(NAMES[cca] for cca in PAIRS.values())), rows)
