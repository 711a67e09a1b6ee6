# SPDX-License-Identifier: MIT
"""`python -m experiments sira`: compares the statements of the SIRA-H paper with the simulator."""

from __future__ import annotations

from functools import partial

import click
import numpy as np

from experiments.campaign import Campaign, Part, Values
from experiments.command import command_of
from experiments.figures import markdown_table
from experiments.sira.cases import RULES, flow_cases, links_of, varied_cases
from experiments.sira.plot import PAPER, draw
from experiments.sira.settings import load_settings
from experiments.sira.statements import (
    SENSITIVITY,
    SIRA_H_OVER_SIRA,
    SYMBOLS,
    TABLE1,
    VARIATION,
    SiraResults,
    flow_views,
    varied_views,
    variation_views,
)
from kmod.terminal import counted
from training.intervals import interval_of

TABLE1_SCHEMES = ("CUBIC", "Vegas", "Reno", "SIRA")
HEADS = ("mean delay, ms", "p95, ms", "throughput, Mbit/s", "utilization, %")
COLUMNS = ("mean_ms", "p95_ms", "mbps", "utilization")


def _cells(values: dict[str, Values]) -> list[str]:
    scales = (1, 1, 1, 100)
    return [f"{scale * values[name].mean():.{digits}f} ± {scale * interval_of(values[name]):.{digits}f}"
            for name, scale, digits in zip(COLUMNS, scales, (0, 0, 2, 1), strict=True)]  # fmt: skip


def flow_table(results: SiraResults) -> list[str]:
    """The delays and the throughput of each algorithm: the paper's, and means with their 95 % intervals."""
    mean_mbps = results.settings.rates.mean_mbps
    rows = [("the paper", scheme, "", f"{mean_ms}", f"{p95_ms}", f"{mbps}", f"{100 * mbps / mean_mbps:.1f}")
            for scheme, (mean_ms, p95_ms, mbps) in PAPER.items()]  # fmt: skip
    rows += [(key[1], *key[2:], *_cells(columns)) for key, columns in results.cases.items() if key[0] == "flow"]
    return markdown_table(("links", "algorithm", "rule", *HEADS), rows)


def varied_table(results: SiraResults) -> list[str]:
    """Utilization and 95th percentile of the delay over the values of each parameter, as means."""
    rows = []
    for at, varied in varied_views(results).items():
        for parameter, values in results.settings.varied.values.items():
            means = [[varied.get(parameter, value, name).mean() for name in ("utilization", "p95_ms")]
                     for value in values]  # fmt: skip
            cells = "; ".join(f"{value}: {100 * use:.1f} %, {ms:.0f} ms"
                              for value, (use, ms) in zip(values, means, strict=True))  # fmt: skip
            rows.append((*at.split(", "), SYMBOLS[parameter], cells))
    return markdown_table(("links", "rule", "parameter", "value: utilization, p95"), rows)


def describe(results: SiraResults) -> str:
    """The number of runs, and which traces were used."""
    stand_in = " (made: there are none)" * results.links.made
    return f"{counted(results.settings.runs, 'run')} of a case at most; recordings of 3G links{stand_in}"


SIRA = Campaign(
    name="sira",
    help="""Compare the statements of the SIRA-H paper with the simulator.

    A figure has a 95 % interval. ! marks a figure that differs from the statement. docs/sira.md gives the differences
    and their reasons. If it is interrupted, the campaign continues where it stopped. --markdown and --json print the
    figures that the statements use.

    \b
    Example:
      python -m experiments sira --only table1 --only sira_h --plot sira.png
    """,
    load=load_settings,
    parts=(
        Part("table1", partial(flow_cases, schemes=TABLE1_SCHEMES), TABLE1, flow_views,
             "SIRA beside TCP, section III.B", needs_links=True),
        Part("sira_h", partial(flow_cases, schemes=("CUBIC", "Reno", "Vegas", "SIRA", "SIRA-H")), SIRA_H_OVER_SIRA,
             flow_views, "SIRA-H beside SIRA, section V.B", flow_table, needs_links=True),
        Part("sensitivity", varied_cases, SENSITIVITY, varied_views, "Parameters of SIRA-H, section V.D", varied_table,
             needs_links=True),
        Part("variation", lambda _settings, _links: (), VARIATION, variation_views, "Rates of the links, section IV.A",
             needs_links=True),
    ),
    notes=(),
    describe=describe,
    draw=draw,
    drawn=("table1", "sira_h"),
    links=links_of,
    options=(click.option("--runs", type=click.IntRange(5, 10_000), help="Of each case  [the config]"),),
)  # fmt: skip
command = command_of(SIRA)
