# SPDX-License-Identifier: MIT
"""The complete figures behind the statements, as rows of JSON data and as the tables of docs/roccet.md.

    halved     smoothed RTT (a run's median, ms) and goodput (Mbit/s) before and after the change, by link, buffer and
               scheme
    recorded   quartiles by kind and scheme: of the goodput over the runs (Mbit/s), and of the pooled smoothed RTTs (ms)
    share      the one flow's share over its equal share, by link, buffer, number of ROCCET flows and that flow's
               algorithm; 1: equal

The figures of `halved` and `share` are means over the seeds. The half width of their 95 % interval is in
`..._interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.roccet.cases import FIRSTS, KINDS, RIVALS
from experiments.roccet.made import NAMES
from experiments.roccet.runs import Results
from experiments.roccet.settings import RoccetSettings, named_scenarios
from experiments.roccet.share import Link
from kmod.terminal import counted
from training.intervals import interval_of

__all__ = ["markdown_of", "tables_of"]

Rows = list[dict[str, Any]]
SCHEMES = ("roccet", *RIVALS)
QUARTILES = {"p25": 0.25, "median": 0.5, "p75": 0.75}
HALVED = ("rtt_before_ms", "rtt_after_ms", "goodput_before_mbps", "goodput_after_mbps")


def tables_of(settings: RoccetSettings, results: Results, *, parts: Sequence[str]) -> dict[str, Rows]:
    """The rows of these parts; `frozen` has no table."""
    return {part: rows(settings, results) for part, (rows, _) in TABLES.items() if part in parts}


def markdown_of(tables: dict[str, Rows]) -> list[str]:
    """These rows as Markdown tables, separated by empty lines."""
    return [line for part, rows in tables.items() for line in ["", *TABLES[part][1](rows)]][1:]


def _halved_rows(settings: RoccetSettings, results: Results) -> Rows:
    rows = []
    for name, scenario in named_scenarios(settings.halved.scenarios).items():
        for buffer_bdp in settings.halved.buffers_bdp:
            for scheme in SCHEMES:
                found = results[f"{name}-{buffer_bdp:g}bdp-{scheme}".replace(".", "-")]
                means = {figure: float(found[figure].mean()) for figure in HALVED}
                halves = {f"{figure}_interval": interval_of(found[figure]) for figure in HALVED}
                rows.append({"rtt_ms": scenario.link.rtt_ms, "buffer_bdp": buffer_bdp, "scheme": NAMES[scheme],
                             **means, **halves})  # fmt: skip
    return rows


def _halved_table(rows: Rows) -> list[str]:
    def cell(row: dict[str, Any], figure: str) -> str:
        return f"{row[figure]:.1f} ± {row[f'{figure}_interval']:.1f}"

    heads = ("RTT", "buffer", "algorithm", "RTT before, ms", "after", "goodput before, Mbit/s", "after")
    return _table(heads, [
        (f"{row['rtt_ms']:g} ms", f"{row['buffer_bdp']:g} BDP", row["scheme"], *(cell(row, name) for name in HALVED))
        for row in rows
    ])  # fmt: skip


def _recorded_rows(_settings: RoccetSettings, results: Results) -> Rows:
    rows = []
    for kind in KINDS:
        for scheme in SCHEMES:
            found = results[f"{kind}-{scheme}"]
            row: dict[str, Any] = {"links": kind, "runs": len(found["goodput_mbps"]), "scheme": NAMES[scheme]}
            for figure, unit in (("goodput", "mbps"), ("rtt", "ms")):
                values = found["goodput_mbps" if figure == "goodput" else "rtts_ms"]
                row |= {f"{figure}_{name}_{unit}": float(np.quantile(values, at)) for name, at in QUARTILES.items()}
            rows.append(row)
    return rows


def _recorded_table(rows: Rows) -> list[str]:
    heads = ("links", "algorithm", *(f"goodput {name}, Mbit/s" for name in QUARTILES),
             *(f"RTT {name}, ms" for name in QUARTILES))  # fmt: skip
    cells = []
    for row in rows:
        goodputs = [f"{row[f'goodput_{name}_mbps']:.2f}" for name in QUARTILES]
        rtts = [f"{row[f'rtt_{name}_ms']:.0f}" for name in QUARTILES]
        cells.append((f"{row['links']}, {counted(row['runs'], 'run')}", row["scheme"], *goodputs, *rtts))
    return _table(heads, cells)


def _share_rows(settings: RoccetSettings, results: Results) -> Rows:
    rows = []
    for name, scenario in named_scenarios(settings.share.scenarios).items():
        link = Link(name, settings.share, results)
        at = {"rate_mbps": scenario.link.rate_mbps, "rtt_ms": scenario.link.rtt_ms}
        for cca in FIRSTS:
            for flows in settings.share.roccet_flows:
                for buffer_bdp in settings.share.buffers_bdp:
                    ratio = link.ratio(cca, buffer_bdp, flows)
                    rows.append({**at, "scheme": NAMES[cca], "roccet_flows": flows, "buffer_bdp": buffer_bdp,
                                 "over_equal_share": float(ratio.mean()),
                                 "over_equal_share_interval": interval_of(ratio)})  # fmt: skip
    return rows


def _share_table(rows: Rows) -> list[str]:
    cells: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        link = f"{row['rate_mbps']:g} Mbit/s x {row['rtt_ms']:g} ms"
        cells.setdefault((link, row["scheme"], str(row["roccet_flows"])), []).append(f"{row['over_equal_share']:.2f}")
    buffers = dict.fromkeys(f"{row['buffer_bdp']:g}" for row in rows)
    first, *others = buffers
    heads = ("link", "one flow of", "ROCCET flows", f"buffer {first} BDP", *others)
    return _table(heads, [(*place, *values) for place, values in cells.items()])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


TABLES: dict[str, tuple[Callable[[RoccetSettings, Results], Rows], Callable[[Rows], list[str]]]] = {
    "halved": (_halved_rows, _halved_table),
    "recorded": (_recorded_rows, _recorded_table),
    "share": (_share_rows, _share_table),
}
