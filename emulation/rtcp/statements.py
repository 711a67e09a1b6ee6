# SPDX-License-Identifier: MIT
"""What R-TCP 2026 states of itself, each as a predicate over the campaign's figures.

The words are ours, the section is the paper's; `issue` is what was asked of this implementation beyond the paper. A
bound holds up to the 95 % interval (emulation/figures.py). Where the paper gives no figure ("similar", "smaller") a
bound stands beside the words.

    reduction    1 - R-TCP's retransmission rate over the base algorithm's, seed by seed, then over the operators
    error        |estimate - truth| / truth, of the runs that were found limited (equations 37 and 38)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from emulation.figures import LEAST_SEEDS, Figure, below, quotients, share, within
from emulation.rtcp.campaign import PAIRS, WIRE, Kind, Part, Results, Values
from emulation.rtcp.clients import APART, FOR_S
from emulation.rtcp.video import kept_qoe
from emulation.rtcp.video import reduced_by as video_reduced_by
from emulation.scenario import Cca

__all__ = ["NAMES", "STATEMENTS", "UNVALIDATED", "Statement", "judge"]

UNVALIDATED = "*"  # behind the name of what no kernel here has
NAMES: dict[Cca, str] = {"cubic": "CUBIC", "bbr": "BBRv1", "bbr3": f"BBRv3{UNVALIDATED}", "rtcp_cubic": "R-TCP-CUBIC",
                         "rtcp_bbr": "R-TCP-BBRv1", "rtcp_bbr3": f"R-TCP-BBRv3{UNVALIDATED}"}  # fmt: skip
BASES: dict[Cca, Cca] = {capped: plain for plain, capped in PAIRS.items()}
NONE = 0.0005
SAME = 0.1  # R-TCP does "similarly" where its reduction is no more
LEAST_GOODPUT = 0.95
MOST_MISSED, MOST_FALSE, MOST_FALSE_MOVING = 0.012, 0.005, 0.037
LEAST_TRIGGERED = 200
MAP_RATE_MBPS, MAP_BUCKET_BYTES = 6.0, 260_000
PATTERN_ERROR = 0.05
LEAST_SECOND = 0.8  # less than the unmodified version, of the best cell
LEAST_SPEED = 0.8  # of the unmodified version's, behind a lift; "overlap" in Appendix H
MOST_REGAINED_S = 3.0


@dataclass(frozen=True)
class Statement:
    """name: section and number. expected: the bound that stands for words."""

    name: str
    kind: Kind
    words: str
    expected: str
    figures: Callable[[Results], list[Figure]]
    unvalidated: bool = False


# --- files: sections 3.1, 4.1, 6.1 -----------------------------------------------------------------------------------


def rate(results: Results, place: str, cca: Cca, size_bytes: int) -> Values:
    """Retransmission rates of a file, one a seed."""
    return results.column(Part("files", place, cca, str(size_bytes)), "retransmission_rate")


def reduction(results: Results, place: str, cca: Cca, size_bytes: int) -> Values:
    """1 - capped / plain, seed by seed; cca: R-TCP's."""
    return 1 - quotients(rate(results, place, cca, size_bytes), rate(results, place, BASES[cca], size_bytes))


def mean_reduction(results: Results, cca: Cca, size_bytes: int) -> Values:
    """Over the operators, seed by seed."""
    values: Values = np.mean([reduction(results, place, cca, size_bytes) for place in results.settings.limited], axis=0)
    return values


def baseline(cca: Cca, place: str, *, least: float, most: float = 1.0) -> Callable[[Results], list[Figure]]:
    """The unmodified algorithm's retransmission rate for the largest file; nothing where the operator is not run."""

    def figures(results: Results) -> list[Figure]:
        if place not in results.settings.limited:
            return []
        values = rate(results, place, cca, results.settings.sizes_bytes[-1])
        return [within(f"{NAMES[cca]} {place}", values, least=least, most=most)]

    return figures


def reduced_by(cca: Cca, least: float) -> Callable[[Results], list[Figure]]:
    """The mean over the operators, and beside it each of them, of which nothing is asked."""

    def figures(results: Results) -> list[Figure]:
        size = results.settings.sizes_bytes[-1]
        of_each = [within(place, reduction(results, place, cca, size)) for place in results.settings.limited]
        return [within(f"{NAMES[cca]} mean", mean_reduction(results, cca, size), least=least), *of_each]

    return figures


def same_goodput(results: Results) -> list[Figure]:
    figures = []
    for plain, capped in PAIRS.items():
        for place in results.settings.limited:
            over = [
                quotients(*(results.column(Part("files", place, cca, str(size)), "goodput_mbps")
                            for cca in (capped, plain)))
                for size in results.settings.sizes_bytes
            ]  # fmt: skip
            worst = min(over, key=lambda values: float(values.mean()))
            figures.append(within(f"{NAMES[capped]} {place}", worst, least=LEAST_GOODPUT))
    return figures


def within_the_bucket(results: Results) -> list[Figure]:
    settings = results.settings
    return [
        within(f"{NAMES[cca]} {place} {megabytes(size)}", rate(results, place, cca, size), most=NONE)
        for cca in BASES for place, limited in settings.limited.items() for size in settings.sizes_bytes
        if size * WIRE * 1.05 < limited.bucket_bytes
    ]  # fmt: skip


def grows_with_size(results: Results) -> list[Figure]:
    sizes = [size for size in results.settings.sizes_bytes
             if all(size > limited.bucket_bytes for limited in results.settings.limited.values())]  # fmt: skip
    return [
        below(f"{NAMES[cca]} {megabytes(smaller)}", mean_reduction(results, cca, smaller),
              mean_reduction(results, cca, larger))
        for cca in BASES for smaller, larger in pairwise(sizes)
    ]  # fmt: skip


def similar_at_first(results: Results) -> list[Figure]:
    place, limited = next(iter(results.settings.limited.items()))
    first = next((size for size in results.settings.sizes_bytes if size > limited.bucket_bytes), None)
    if first is None:
        return []
    return [within(f"{NAMES[cca]} {place} {megabytes(first)}", reduction(results, place, cca, first),
                   least=-SAME, most=SAME) for cca in BASES]  # fmt: skip


def megabytes(size_bytes: int) -> str:
    """The size as the paper has it."""
    return f"{size_bytes / 1e6:g} MB"


# --- detection: appendices K and L -----------------------------------------------------------------------------------


def detection(results: Results, value: str) -> list[Part]:
    """Parts of detection of that kind."""
    return [part for part in results.parts if part.kind == "detection" and part.value == value]


def hits(results: Results, part: Part, column: str) -> tuple[int, int]:
    """In how many of its runs a column is 1."""
    values = results.column(part, column)
    return int(values.sum()), len(values)


def missed(results: Results) -> list[Figure]:
    figures = []
    for part in detection(results, "limited"):
        found, of = hits(results, part, "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place}", of - found, of, most=MOST_MISSED))
    return figures


def falsely(*, moving: bool) -> Callable[[Results], list[Figure]]:
    """Runs without a limit that end as limited."""

    def figures(results: Results) -> list[Figure]:
        parts = [p for p in detection(results, "unlimited") if results.settings.unlimited[p.place].moving == moving]
        most = MOST_FALSE_MOVING if moving else MOST_FALSE
        return [share(f"{NAMES[p.cca]} {p.place}", *hits(results, p, "limited"), most=most) for p in parts]

    return figures


def triggered(results: Results) -> list[Figure]:
    counts = [hits(results, part, "triggered") for part in detection(results, "unlimited")]
    fired, of = sum(count for count, _ in counts), sum(of for _, of in counts)
    return [Figure(f"in {of} runs", float(fired), 0.0, fired >= LEAST_TRIGGERED, "runs")]


def without_guards(results: Results) -> list[Figure]:
    """Runs that were classified at any time, from the first loss on, against those that end so with both guards."""
    figures = []
    for part in detection(results, "eager"):
        ever, of = hits(results, part, "ever_limited")
        guarded, _ = hits(results, Part(part.kind, part.place, part.cca, "unlimited"), "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place}", ever, of, least=guarded / of))
    return figures


def errors(results: Results, part: Part, *, truth: tuple[float, float]) -> tuple[Values, Values]:
    """Of B and of R, of the runs that were found limited."""
    found = results.column(part, "limited") == 1
    bucket = results.column(part, "bucket_bytes")[found]
    mbps = results.column(part, "rate_mbps")[found]
    return np.abs(bucket / truth[0] - 1), np.abs(mbps / truth[1] - 1)


def estimates(bounds: dict[Cca, tuple[float, float]]) -> Callable[[Results], list[Figure]]:
    """Table 9; bounds: of B and of R behind the first operator."""

    def figures(results: Results) -> list[Figure]:
        out = []
        for part in detection(results, "limited"):
            limited = results.settings.limited[part.place]
            of_b, of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))
            if len(of_b) < LEAST_SEEDS:
                continue
            first = part.place == next(iter(results.settings.limited))
            most_b, most_r = bounds[part.cca] if first else (math.inf, math.inf)
            out += [within(f"{NAMES[part.cca]} {part.place} B", of_b, most=most_b), within("R", of_r, most=most_r)]
        return out

    return figures


def operating_map(results: Results) -> list[Figure]:
    inside = [0, 0]
    of_r = []
    for part in results.parts:
        if part.kind != "map":
            continue
        mbps, bucket = float(part.value), int(part.place)
        found, of = hits(results, part, "limited")
        if mbps <= MAP_RATE_MBPS and bucket >= MAP_BUCKET_BYTES:
            inside[0] += found
            inside[1] += of
            of_r.append(errors(results, part, truth=(bucket, mbps))[1])
    if not inside[1]:
        return []
    rates = np.concatenate(of_r)
    figures = [share("found", inside[0], inside[1], least=1.0)]
    return figures + ([within("error of R", rates, most=PATTERN_ERROR)] if len(rates) >= LEAST_SEEDS else [])


# --- patterns: sections 3.2, 6.2 --------------------------------------------------------------------------------------


def patterns(results: Results) -> list[Figure]:
    figures = []
    for part in results.parts:
        if part.kind != "patterns":
            continue
        limited = results.settings.limited[results.settings.patterns[part.place].limited]
        name = f"{NAMES[part.cca]} {part.place}"
        found, of = hits(results, part, "limited")
        figures.append(share(f"{name} found", found, of, least=1.0))
        of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))[1]
        if len(of_r) >= LEAST_SEEDS:
            figures.append(within("error of R", of_r, most=PATTERN_ERROR))
    return figures


# --- clients: sections 5.4, 6.1, 6.3 ----------------------------------------------------------------------------------


def second(results: Results, cca: Cca, size_bytes: int, column: str = "retransmission_rate", *,
           apart: bool = False) -> Values:  # fmt: skip
    """A column of the second connections, one a seed; apart: with nothing known of the first."""
    value = f"{size_bytes}{APART}" if apart else str(size_bytes)
    return results.column(Part("second", results.settings.second.limited, cca, value), column)


def second_reduction(results: Results, cca: Cca, size_bytes: int) -> Values:
    """1 - stateful / plain, seed by seed; cca: R-TCP's. Not a number where the plain one resends nothing."""
    return 1 - quotients(second(results, cca, size_bytes), second(results, BASES[cca], size_bytes))


def second_cells(results: Results) -> list[Figure]:
    """The best cell, of which something is asked, and all others."""
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


def second_within_the_bucket(results: Results) -> list[Figure]:
    bucket_bytes = results.settings.limited[results.settings.second.limited].bucket_bytes
    return [
        within(f"S{NAMES[cca]} {megabytes(size)}", second(results, cca, size), most=NONE)
        for cca in BASES for size in results.settings.sizes_bytes if size * WIRE * 1.05 < bucket_bytes
    ]  # fmt: skip


def second_goodput(results: Results) -> list[Figure]:
    figures = []
    for cca, base in BASES.items():
        over = [quotients(*(second(results, of, size, "goodput_mbps") for of in (cca, base)))
                for size in results.settings.sizes_bytes]  # fmt: skip
        worst = min(over, key=lambda values: float(values.mean()))
        figures.append(within(f"S{NAMES[cca]}", worst, least=LEAST_GOODPUT))
    return figures


def concurrent(results: Results) -> list[Figure]:
    figures = []
    for part in results.parts:
        if part.kind != "concurrent" or part.cca not in BASES:
            continue
        limited = results.settings.limited[results.settings.concurrent[part.place].limited]
        found, of = hits(results, part, "limited")
        figures.append(share(f"{NAMES[part.cca]} {part.place} found", found, of, least=1.0))
        of_r = errors(results, part, truth=(limited.bucket_bytes, limited.rate_mbps))[1]
        if len(of_r) >= LEAST_SEEDS:
            figures.append(within("error of R", of_r, most=PATTERN_ERROR))
    return figures


def concurrent_rate(results: Results, place: str, cca: Cca) -> Values:
    """Segments sent again over sent ones, of all connections, one a seed."""
    return results.column(Part("concurrent", place, cca, "objects"), "retransmission_rate")


def concurrent_reduction(results: Results) -> list[Figure]:
    return [
        within(f"{NAMES[cca]} {place}",
               1 - quotients(concurrent_rate(results, place, cca), concurrent_rate(results, place, base)), least=0.0)
        for place in results.settings.concurrent for cca, base in BASES.items()
    ]  # fmt: skip


# --- a limit that is lifted: Appendix H -------------------------------------------------------------------------------


def lifted(results: Results, cca: Cca, loss: float, column: str) -> Values:
    """A column of the downloads whose limit is lifted, one a seed."""
    return results.column(Part("lifted", "limit", cca, f"{100 * loss:g}"), column)


def lifted_speed(results: Results) -> list[Figure]:
    return [
        within(f"{NAMES[cca]} {100 * loss:g} % loss",
               quotients(*(lifted(results, of, loss, "speed_mbps") for of in (cca, base))), least=LEAST_SPEED)
        for cca, base in BASES.items() for loss in results.settings.lifted.losses
    ]  # fmt: skip


def regained_s(results: Results, cca: Cca, loss: float) -> Values:
    """Seconds, one a seed; a run that does not get there in the time that is looked at counts with all of it."""
    return np.nan_to_num(lifted(results, cca, loss, "regained_s"), nan=FOR_S)


def lifted_in_time(results: Results) -> list[Figure]:
    """R-TCP-BBRv1, and beside it the unmodified version, of which nothing is asked."""
    figures = []
    for loss in results.settings.lifted.losses:
        values = regained_s(results, "rtcp_bbr", loss)
        figures.append(within(f"R-TCP-BBRv1 {100 * loss:g} % loss", values, most=MOST_REGAINED_S, unit="s"))
        figures.append(within("BBRv1", regained_s(results, "bbr", loss), unit="s"))
    return figures


STATEMENTS: tuple[Statement, ...] = (
    Statement("4.1-1", "files", "Unmodified BBRv1 resends 9 % of the largest file behind op1", "7 to 11 %",
              baseline("bbr", "op1", least=0.07, most=0.11)),
    Statement("4.1-2", "files", "Unmodified CUBIC resends 5 % of it", "3 to 7 %",
              baseline("cubic", "op1", least=0.03, most=0.07)),
    Statement("talk-1", "files", "Unmodified BBRv3 resends more than a tenth of it", "> 10 %",
              baseline("bbr3", "op1", least=0.1), unvalidated=True),
    Statement("6.1-1", "files", "Unmodified BBRv1 resends 8.6 % of it behind op2", "7 to 11 %",
              baseline("bbr", "op2", least=0.07, most=0.11)),
    Statement("6.1-2", "files", "Unmodified BBRv1 resends 23.2 % of it behind op3", "19 to 27 %",
              baseline("bbr", "op3", least=0.19, most=0.27)),
    Statement("6.1-3", "files", "R-TCP resends 57 % less than CUBIC of the largest file, mean of the operators",
              ">= 57 %", reduced_by("rtcp_cubic", 0.57)),
    Statement("6.1-4", "files", "and 80 % less than BBRv1", ">= 80 %", reduced_by("rtcp_bbr", 0.80)),
    Statement("6.1-5", "files", "and 76 % less than BBRv3", ">= 76 %", reduced_by("rtcp_bbr3", 0.76), unvalidated=True),
    Statement("6.1-6", "files", "Goodput stays within 5 % of the unmodified version's; the worst size of each",
              ">= 95 %", same_goodput),
    Statement("6.1-7", "files", "Less with smaller files", "each at most the size above", grows_with_size),
    Statement("6.1-8", "files", "Similar to the unmodified version at the first size beyond the bucket of op1",
              "-10 to 10 %", similar_at_first),
    Statement("6.1-9", "files", "Little to no retransmission of a file that the bucket holds", "< 0.05 %",
              within_the_bucket),
    Statement("K-1", "detection", "Limited clients that are not found (Table 8: up to 1.18 %)", "<= 1.2 %", missed),
    Statement("K-2", "detection", "Clients without a limit that are taken for limited, still (0 to 0.46 %)",
              "<= 0.5 %", falsely(moving=False)),
    Statement("K-3", "detection", "and moving (3.59, 3.67 %)", "<= 3.7 %", falsely(moving=True)),
    Statement("issue-1", "detection", "so judged where detection begins in enough runs", ">= 200 runs", triggered),
    Statement("K-4", "detection", "Without trigger and un-detection more are, moving (8.07, 5.96 %)",
              "at least the share of K-3", without_guards),
    Statement("K-5", "detection", "Errors of B and R behind op1 (Table 9: 5.71 and 0.41, 6.97 and 0.50 %)",
              "at most these; of the others none is asked",
              estimates({"rtcp_bbr": (0.0571, 0.0041), "rtcp_cubic": (0.0697, 0.0050)})),
    Statement("L-1", "map", "Found wherever R is up to 6 Mbit/s and B from 260 kB on, R with a small error",
              "all runs, <= 5 %", operating_map),
    Statement("6.2-1", "patterns", "Found with several objects on a connection, R close (2 % in the X app)",
              "all runs, <= 5 %", patterns),
    Statement("6.1-10", "second", "A second connection, with what the first has found, resends less by up to 88 %",
              ">= 80 %, the best of them", second_cells),
    Statement("6.1-11", "second", "and nothing of a file that the bucket holds", "< 0.05 %", second_within_the_bucket),
    Statement("issue-2", "second", "at a goodput within 5 % of the unmodified version's; the worst size of each",
              ">= 95 %", second_goodput),
    Statement("5.4-1", "concurrent", "Found with several connections to a client at a time, R close",
              "all runs, <= 5 %", concurrent),
    Statement("6.3-1", "concurrent", "They resend less than the unmodified versions (40 to 60 % in a short-video app)",
              "> 0 %", concurrent_reduction),
    Statement("H-1", "lifted", "From 3 s behind a limit's end on, its speed is that of the unmodified version",
              ">= 80 % of it", lifted_speed),
    Statement("H-2", "lifted", "Half of the new limit is reached within 3 s", "<= 3 s; never counts as 10 s",
              lifted_in_time),
    Statement("6.2-2", "video", "Of videos one after the other, stateful R-TCP resends 28 % less than CUBIC", ">= 28 %",
              video_reduced_by(("cubic", "rtcp_cubic"), 0.28)),
    Statement("6.2-3", "video", "and 39 % less than BBRv1", ">= 39 %", video_reduced_by(("bbr", "rtcp_bbr"), 0.39)),
    Statement("6.2-4", "video", "and 43 % less than BBRv3", ">= 43 %", video_reduced_by(("bbr3", "rtcp_bbr3"), 0.43),
              unvalidated=True),
    Statement("6.2-5", "video", "QoE stays within 3 % of CUBIC's, behind each operator", ">= 97 %",
              kept_qoe(("cubic", "rtcp_cubic"), 0.97)),
    Statement("6.2-6", "video", "of BBRv1's", ">= 97 %", kept_qoe(("bbr", "rtcp_bbr"), 0.97)),
    Statement("6.2-7", "video", "and of BBRv3's", ">= 97 %", kept_qoe(("bbr3", "rtcp_bbr3"), 0.97), unvalidated=True),
)  # fmt: skip


def judge(results: Results, statements: Sequence[Statement] = STATEMENTS) -> list[dict[str, Any]]:
    """A row for each statement with a figure in what was run, as JSON data; `agrees` where each is as stated."""
    rows = []
    for statement in statements:
        figures = statement.figures(results) if results.has(statement.kind) else []
        if not figures:
            continue
        rows.append({
            "statement": statement.name,
            "words": statement.words,
            "expected": statement.expected,
            "unvalidated": statement.unvalidated,
            "figures": [figure.summary() for figure in figures],
            "agrees": all(figure.agrees for figure in figures),
        })  # fmt: skip
    return rows
