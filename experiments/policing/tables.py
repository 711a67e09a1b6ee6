# SPDX-License-Identifier: MIT
"""Writes the table of retransmission rates of docs/policing.md."""

from __future__ import annotations

from experiments.policing.campaign import CCAS, Case, Results
from experiments.policing.statements import NAMES

__all__ = ["rates_table"]


def rates_table(results: Results) -> list[str]:
    """Lines of Markdown: mean retransmission rates in percent, over the seeds, at the operator's RTT.

    The table has a row for each access rate and algorithm.
    """
    settings = results.settings
    first, *others = (f"{size / 1e6:g}" for size in settings.sizes_bytes)
    lines = [_row("access", "algorithm", f"{first} MB", *others), _row(*["---"] * (2 + len(settings.sizes_bytes)))]
    for access_mbps in settings.access_mbps:
        for cca in CCAS:
            cases = [Case(cca, access_mbps, settings.rtt_ms, size) for size in settings.sizes_bytes]
            rates = [f"{100 * results.files[case].retransmission_rate.mean():.1f}" for case in cases]
            lines.append(_row(f"{access_mbps:g} Mbit/s" if cca == CCAS[0] else "", NAMES[cca], *rates))
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
