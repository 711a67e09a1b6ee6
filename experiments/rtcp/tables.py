# SPDX-License-Identifier: MIT
"""Writes the tables of docs/rtcp.md: files, the map of buckets, connections of a client, probing, and videos."""

from __future__ import annotations

import numpy as np

from experiments.rtcp.campaign import DETECTORS, PAIRS, Part, Results
from experiments.rtcp.statements import video
from experiments.rtcp.statements.common import NAMES, errors
from experiments.rtcp.statements.files import rate
from experiments.rtcp.statements.probing import cell, paper_cell
from experiments.rtcp.statements.several import concurrent_rate, second

__all__ = ["concurrent_table", "files_table", "map_table", "probing_table", "second_table", "video_table"]


def files_table(results: Results) -> list[str]:
    """Lines of Markdown: mean retransmission rates in percent, without R-TCP > with it.

    The table has a row for each operator and base algorithm.
    """
    settings = results.settings
    first, *others = (f"{size / 1e6:g}" for size in settings.sizes_bytes)
    lines = [_row("operator", "algorithm", f"{first} MB", *others), _row(*["---"] * (2 + len(settings.sizes_bytes)))]
    for place in settings.limited:
        for plain, capped in PAIRS.items():
            cells = [
                " > ".join(f"{100 * rate(results, place, cca, size).mean():.1f}" for cca in (plain, capped))
                for size in settings.sizes_bytes
            ]
            lines.append(_row(place, NAMES[plain], *cells))
    return lines


def map_table(results: Results) -> list[str]:
    """Lines of Markdown: the mean error of R in percent, with a row for each R and a column for each B.

    A dash means that some runs did not detect the limit.
    """
    grid = results.settings.map
    first, *others = (f"{bucket / 1000:g}" for bucket in grid.buckets_bytes)
    lines = [_row("R, Mbit/s", f"B {first} kB", *others), _row(*["---"] * (1 + len(grid.buckets_bytes)))]
    for mbps in grid.rates_mbps:
        cells = [_error(results, Part("map", f"{bucket}", "rtcp_bbr", f"{mbps:g}")) for bucket in grid.buckets_bytes]
        lines.append(_row(f"{mbps:g}", *cells))
    return lines


def second_table(results: Results) -> list[str]:
    """Lines of Markdown: mean retransmission rates of the second connection in percent.

    A cell is: without R-TCP > with it, apart > with the knowledge of the first connection.
    """
    settings = results.settings
    first, *others = (f"{size / 1e6:g}" for size in settings.sizes_bytes)
    lines = [_row("algorithm", f"{first} MB", *others), _row(*["---"] * (1 + len(settings.sizes_bytes)))]
    for plain, capped in PAIRS.items():
        cells = [
            " > ".join(f"{100 * values.mean():.1f}" for values in (
                second(results, plain, size), second(results, capped, size, apart=True), second(results, capped, size)))
            for size in settings.sizes_bytes
        ]  # fmt: skip
        lines.append(_row(NAMES[plain], *cells))
    return lines


def concurrent_table(results: Results) -> list[str]:
    """Lines of Markdown: mean retransmission rates of all connections in percent.

    A cell is: without R-TCP > with it.
    """
    patterns = list(results.settings.concurrent)
    lines = [_row("algorithm", *patterns), _row(*["---"] * (1 + len(patterns)))]
    for pair in PAIRS.items():
        cells = [" > ".join(f"{100 * concurrent_rate(results, place, cca).mean():.1f}" for cca in pair)
                 for place in patterns]  # fmt: skip
        lines.append(_row(NAMES[pair[0]], *cells))
    return lines


def probing_table(results: Results) -> list[str]:
    """Lines of Markdown: mean retransmission rates in percent by eta and gamma, with the paper's in parentheses."""
    halves = [(cca, place) for cca in DETECTORS for place in results.settings.probing.limited]
    lines = [_row("eta", "gamma", *(f"{NAMES[cca]} {place}" for cca, place in halves)),
             _row(*["---"] * (2 + len(halves)))]  # fmt: skip
    for at in results.settings.probing.cells:
        cells = []
        for cca, place in halves:
            theirs = paper_cell(cca, place, at)
            ours = f"{100 * cell(results, place, cca, at).mean():.2f}"
            cells.append(ours if theirs is None else f"{ours} ({100 * theirs[0]:.2f})")
        lines.append(_row(f"{at[0]}", f"{at[1] / 10:g} %", *cells))
    return lines


def video_table(results: Results) -> list[str]:
    """Lines of Markdown, with a row for each ABR, operator and base algorithm. A cell is: without R-TCP > with it.

    The columns are the retransmission rates in percent of all sessions, the first one and the later ones, QoE in
    Mbit/s, the mean bitrate in kbit/s, and a session's time to the first chunk and rebuffering in s.
    """
    heads = ("ABR", "operator", "algorithm", "all", "first", "later", "QoE", "kbit/s", "start-up", "rebuffering")
    cells = [
        (abr, place, NAMES[pair[0]], *video.row_of(results, place, abr, pair))
        for abr in results.settings.video.abrs for place in results.settings.limited for pair in PAIRS.items()
    ]  # fmt: skip
    return [_row(*heads), _row(*["---"] * len(heads)), *(_row(*row) for row in cells)]


def _error(results: Results, part: Part) -> str:
    of_r = errors(results, part, truth=(int(part.place), float(part.value)))[1]
    return "-" if len(of_r) < results.settings.map.runs else f"{100 * np.mean(of_r):.1f}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
