# SPDX-License-Identifier: MIT
"""`python -m experiments sira`: compares the statements of the SIRA-H paper with the simulator."""

from __future__ import annotations

from functools import partial

import click

from experiments.campaign import Campaign, Part, Values
from experiments.command import command_of
from experiments.figures import markdown_table, with_interval
from experiments.sira.cases import FLOWS, SIRA, TCP, flow_cases, links_of, varied_cases
from experiments.sira.plot import PAPER, draw
from experiments.sira.settings import load_settings
from experiments.sira.statements import (
    SENSITIVITY,
    SIRA_H_OVER_SIRA,
    SYMBOLS,
    TABLE1,
    VARIATION,
    SiraResults,
    sira_h_views,
    table1_views,
    variation_views,
    varied_views,
)
from kmod.terminal import counted

# The columns of the table, with the factor and the digits of each.
COLUMNS = {"mean_ms": (1, 1), "p95_ms": (1, 1), "mbps": (1, 2), "utilization": (100, 1)}
HEADS = ("links", "algorithm", "mean delay, ms", "p95, ms", "throughput, Mbit/s", "utilization, %")


def _cells(case: dict[str, Values]) -> list[str]:
    return [with_interval(case[name], scale=scale, digits=digits) for name, (scale, digits) in COLUMNS.items()]


def flow_table(results: SiraResults) -> list[str]:
    """The delays and the throughput of each algorithm: the paper's, and means with their 95 % intervals."""
    mean_mbps = results.settings.rates.mean_mbps
    rows: list[tuple[str, ...]] = []
    rows += [("paper", name, f"{mean_ms}", f"{p95_ms}", f"{mbps:.2f}", f"{100 * mbps / mean_mbps:.1f}")
             for name, (mean_ms, p95_ms, mbps) in PAPER.items()]  # fmt: skip
    rows += [(at, name, *_cells(results.cases["flow", at, name])) for at in results.settings.places for name in FLOWS]
    return markdown_table(HEADS, rows)


def varied_table(results: SiraResults) -> list[str]:
    """Utilization and 95th percentile of the delay over the values of each parameter, as means."""
    rows = []
    for varied in varied_views(results).values():
        for parameter, values in results.settings.varied.values.items():
            cells = [
                f"{value}: {100 * varied.get(parameter, value, 'utilization').mean():.1f} %, "
                f"{varied.get(parameter, value, 'p95_ms').mean():.0f} ms"
                for value in values
            ]
            rows.append((varied.at, varied.rule, SYMBOLS[parameter], "; ".join(cells)))
    return markdown_table(("links", "rule", "parameter", "value: utilization, p95"), rows)


def describe(results: SiraResults) -> str:
    """The number of runs, and which traces were used."""
    stand_in = " (made: there are none)" * results.links.made
    return f"{counted(results.settings.runs, 'run')} of a case at most; recordings of 3G links{stand_in}"


REPORT = Campaign(
    name="sira",
    help="""Compare the statements of the SIRA-H paper with the simulator.

    A figure has a 95 % interval. ! marks a figure that differs from the statement. docs/sira.md gives the differences
    and their reasons. If the campaign is interrupted, it continues where it stopped. --markdown and --json print the
    figures that the statements use.

    \b
    Example:
      python -m experiments sira --only sira_h --plot sira.png
    """,
    load=load_settings,
    parts=(
        Part("table1", partial(flow_cases, names=(*TCP, SIRA)), TABLE1, table1_views, "SIRA beside TCP, section III.B",
             needs_links=True),
        Part("sira_h", partial(flow_cases, names=FLOWS), SIRA_H_OVER_SIRA, sira_h_views,
             "SIRA-H beside SIRA, section V.B", flow_table, needs_links=True),
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
command = command_of(REPORT)
