# SPDX-License-Identifier: MIT
"""Sections 3.2, 5.4, 6.1 and 6.2: several objects or connections.

    patterns     objects on one connection
    second       a file, an idle time, and a file of the same size on its own connection. The figures are those of the
                 second file. value: the size, followed by "-apart" if the second connection knows nothing of the first
    concurrent   several connections at a time, each with its objects

The objects are on one connection, and the connections belong to one client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from emulation.scenario.model import WIRE, Cca, FlowSpec, Scenario, Transfer
from experiments.campaign import Case, Links, Values
from experiments.figures import (
    Figure,
    Statement,
    arrows,
    markdown_table,
    megabytes,
    megabytes_of,
    quotients,
    share,
    within,
)
from experiments.rtcp.cells import (
    ALL,
    BASES,
    LEAST_GOODPUT,
    NAMES,
    NONE,
    PAIRS,
    Cell,
    RtcpResults,
    case_of,
    errors,
    hits,
    link_at,
    of_kind,
    rate_errors,
)
from experiments.rtcp.settings import RtcpSettings
from training.intervals import LEAST_SEEDS

LEAST_SECOND = 0.8  # smallest reduction from the unmodified algorithm, in the best cell


def pattern_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each pattern with each variant of R-TCP."""
    for name in settings.patterns:
        for cca in BASES:
            yield case_of(Cell("patterns", name, cca, "objects"), settings.seeds, partial(pattern, settings, name, cca))


def pattern(settings: RtcpSettings, name: str, cca: Cca, seed: int) -> Scenario:
    """The objects of a pattern on one connection."""
    its = settings.patterns[name]
    place = settings.limited[its.limited]
    flow = FlowSpec(cca=cca, transfers=its.transfers)
    most_s = _longest_s(its.transfers, place.rate_mbps)
    return Scenario(link=link_at(settings, place), flows=(flow,), duration_s=most_s, seed=seed)


def _longest_s(objects: Sequence[Transfer], rate_mbps: float) -> float:
    """Enough time for these objects, with their gaps."""
    size = sum(transfer.size_bytes * transfer.count for transfer in objects)
    return 4 * size * 8e-6 / rate_mbps + sum(transfer.gap_s * transfer.count for transfer in objects) + 30


def second_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Two connections with each algorithm and size; with R-TCP also apart."""
    for size in settings.sizes_bytes:
        for cca in ALL:
            for apart in (False, True) if cca in BASES else (False,):
                cell = second_cell(settings, cca, size, apart=apart)
                yield case_of(cell, settings.seeds, partial(_second, settings, cca, size, apart))


def second_cell(settings: RtcpSettings, cca: Cca, size_bytes: int, *, apart: bool) -> Cell:
    """The cell of a second connection."""
    return Cell("second", settings.second.limited, cca, f"{size_bytes}{'-apart' * apart}")


def _second(settings: RtcpSettings, cca: Cca, size_bytes: int, apart: bool, seed: int) -> Scenario:  # noqa: FBT001
    place = settings.limited[settings.second.limited]
    flow = FlowSpec(cca=cca, size_bytes=size_bytes)
    later = FlowSpec(cca=cca, size_bytes=size_bytes, after=0, start_s=settings.second.idle_s)
    most_s = 2 * (4 * size_bytes * 8e-6 / place.rate_mbps + 30) + settings.second.idle_s
    link, keep_s = link_at(settings, place), 0.0 if apart else 600.0
    return Scenario(link=link, flows=(flow, later), duration_s=most_s, seed=seed, client_keep_s=keep_s)


def concurrent_cases(settings: RtcpSettings, _links: Links | None = None) -> Iterator[Case]:
    """Each pattern of connections with each algorithm."""
    for name in settings.concurrent:
        for cca in ALL:
            scenario = partial(_concurrent, settings, name, cca)
            yield case_of(Cell("concurrent", name, cca, "objects"), settings.seeds, scenario, together=True)


def _concurrent(settings: RtcpSettings, name: str, cca: Cca, seed: int) -> Scenario:
    its = settings.concurrent[name]
    place = settings.limited[its.limited]
    flows = tuple(FlowSpec(cca=cca, start_s=flow.start_s, transfers=flow.transfers) for flow in its.flows)
    objects = [transfer for flow in its.flows for transfer in flow.transfers]
    most_s = _longest_s(objects, place.rate_mbps) + max(flow.start_s for flow in its.flows)
    return Scenario(link=link_at(settings, place), flows=flows, duration_s=most_s, seed=seed)


def patterns(results: RtcpResults) -> list[Figure]:
    return found_limits(results, "patterns", {name: it.limited for name, it in results.settings.patterns.items()})


def concurrent(results: RtcpResults) -> list[Figure]:
    return found_limits(results, "concurrent", {name: it.limited for name, it in results.settings.concurrent.items()})


def found_limits(results: RtcpResults, kind: str, operators: Mapping[str, str]) -> list[Figure]:
    """The share of runs that end as limited, and the error of R, for each part of a kind with R-TCP.

    operators: the name of the operator, by place.
    """
    figures = []
    for part in of_kind(results, kind):
        if part.cca not in BASES:
            continue
        limited = results.settings.limited[operators[part.place]]
        found, of = hits(results, part, "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place} found", found, of, least=1.0))
        of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))[1]
        if len(of_r) >= LEAST_SEEDS:
            figures += rate_errors(of_r)
    return figures


def second(results: RtcpResults, cca: Cca, size_bytes: int, column: str = "retransmission_rate", *,
           apart: bool = False) -> Values:  # fmt: skip
    """A column of the second connections, one for each seed.

    apart: the second connection knows nothing of the first one.
    """
    return results.get(second_cell(results.settings, cca, size_bytes, apart=apart), column)


def second_reduction(results: RtcpResults, cca: Cca, size_bytes: int) -> Values:
    """1 - R-TCP's retransmission rate over the unmodified algorithm's, seed by seed; cca: the variant of R-TCP.

    NaN: the unmodified algorithm retransmits nothing.
    """
    return 1 - quotients(second(results, cca, size_bytes), second(results, BASES[cca], size_bytes))


def second_cells(results: RtcpResults) -> list[Figure]:
    """The best cell, which has a bound, and all other cells, which have none."""
    cells = {
        (cca, size): second_reduction(results, cca, size) for cca in BASES for size in results.settings.sizes_bytes
    }
    lossy = {cell: values for cell, values in cells.items() if np.isfinite(values).all()}
    if not lossy:
        return []
    best = max(lossy, key=lambda cell: float(lossy[cell].mean()))
    named = {cell: f"S{NAMES[cell[0]]} {megabytes(cell[1])}" for cell in lossy}
    return [within(f"best: {named[best]}", lossy[best], least=LEAST_SECOND),
            *(within(named[cell], values) for cell, values in lossy.items() if cell != best)]  # fmt: skip


def second_within_the_bucket(results: RtcpResults) -> list[Figure]:
    bucket_bytes = results.settings.limited[results.settings.second.limited].bucket_bytes
    return [
        within(f"S{NAMES[cca]} {megabytes(size)}", second(results, cca, size), most=NONE)
        for cca in BASES for size in results.settings.sizes_bytes if size * WIRE * 1.05 < bucket_bytes
    ]  # fmt: skip


def second_goodput(results: RtcpResults) -> list[Figure]:
    figures = []
    for cca, base in BASES.items():
        over = [quotients(*(second(results, of, size, "goodput_mbps") for of in (cca, base)))
                for size in results.settings.sizes_bytes]  # fmt: skip
        worst = min(over, key=lambda values: float(values.mean()))
        figures.append(within(f"S{NAMES[cca]}", worst, least=LEAST_GOODPUT))
    return figures


def concurrent_rate(results: RtcpResults, place: str, cca: Cca) -> Values:
    """The retransmission rate of all connections together, one for each seed."""
    return results.get(Cell("concurrent", place, cca, "objects"), "retransmission_rate")


PATTERNS: tuple[Statement[RtcpResults], ...] = (
    Statement("6.2-1", "Found with several objects on a connection, R close (2 % in the X app)",
              "in all runs, mean error <= 5 %", patterns),
)  # fmt: skip
SECOND: tuple[Statement[RtcpResults], ...] = (
    Statement("6.1-10", "A second connection, with what the first has found, retransmits less by up to 88 %",
              ">= 80 %, the best of them", second_cells),
    Statement("6.1-11", "and nothing of a file that the bucket holds", "< 0.05 %", second_within_the_bucket),
    Statement("issue-2", "at a goodput within 5 % of the unmodified version's; the worst size of each",
              ">= 95 %", second_goodput),
)  # fmt: skip
CONCURRENT: tuple[Statement[RtcpResults], ...] = (
    Statement("5.4-1", "Found with several connections to a client at a time, R close",
              "in all runs, mean error <= 5 %", concurrent),
)  # fmt: skip


def second_table(results: RtcpResults) -> list[str]:
    """Mean retransmission rates of the second connection in percent.

    A cell is: without R-TCP > with it, apart > with the knowledge of the first connection.
    """
    sizes = results.settings.sizes_bytes
    rows = []
    for plain, capped in PAIRS.items():
        each = (
            (second(results, plain, size), second(results, capped, size, apart=True), second(results, capped, size))
            for size in sizes
        )
        rows.append((NAMES[plain], *(arrows(*values) for values in each)))
    return markdown_table(("algorithm", *megabytes_of(sizes)), rows)


def concurrent_table(results: RtcpResults) -> list[str]:
    """Mean retransmission rates of all connections in percent.

    A cell is: without R-TCP > with it.
    """
    places = results.settings.concurrent
    rows = [
        (NAMES[pair[0]], *(arrows(*(concurrent_rate(results, place, cca) for cca in pair)) for place in places))
        for pair in PAIRS.items()
    ]
    return markdown_table(("algorithm", *places), rows)
