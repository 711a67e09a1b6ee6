# SPDX-License-Identifier: MIT
"""`python -m experiments pqsa`: compares the statements of the PQSA paper with the simulator."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from experiments.campaign import Campaign, Part
from experiments.command import command_of
from experiments.figures import half_of, markdown_table, with_interval
from experiments.pqsa import cases, searches
from experiments.pqsa import statements as stated
from experiments.pqsa.settings import load_settings
from experiments.pqsa.statements import PqsaResults, varied_views, views
from kmod.terminal import counted

# The paper's figures, from tables IV and V: delay in ms, throughput in Mbit/s.
PAPER = {
    ("target", "50"): (68.2, 12.1), ("target", "100"): (101.4, 14.52), ("target", "200"): (212.1, 15.0),
    ("epochs", "epoch 30 s"): (100.1, 4.9), ("epochs", "epoch 60 s"): (71.9, 4.1),
    ("epochs", "epoch 120 s"): (52.5, 3.5), ("epochs", "epoch 240 s"): (57.5, 3.6),
    ("epochs", "without SD1"): (45.6, 3.8),
}  # fmt: skip
FAIR_DIGITS = {"jain": 3, "p95_ms": 0, "mbps": 1}
HEADS = ("links", "flows", "p95 of the delay, ms", "throughput, Mbit/s", "use, %", "paper: ms, Mbit/s")


def qos_table(results: PqsaResults, *, part: str) -> list[str]:
    """The figures of each case with their 95 % intervals, beside the paper's."""
    rows = []
    for (name, *at, flows), case in results.cases.items():
        if name != part:
            continue
        delay_ms, drawn = stated.p95_ms(case)
        paper = PAPER.get((name, flows))
        rows.append((
            ", ".join(at), flows, f"{delay_ms:.0f} ± {half_of(drawn):.0f}",
            with_interval(case["mbps"], digits=2), with_interval(case["utilization"], scale=100),
            f"{paper[0]:g}, {paper[1]:g}" if paper else "",
        ))  # fmt: skip
    return markdown_table(HEADS, rows)


def fairness_table(results: PqsaResults) -> list[str]:
    """Jain's index, the 95th percentile of the delay and the throughput of all flows: means with their intervals."""
    rows = []
    for (part, *at, name), case in results.cases.items():
        if part == "fairness":
            cells = (with_interval(case[column], digits=digits) for column, digits in FAIR_DIGITS.items())
            rows.append((*at, name, *cells))
    return markdown_table(("RTT, ms", "flows", "algorithm", "Jain's index", "p95, ms", "Mbit/s"), rows)


def describe(results: PqsaResults) -> str:
    """The number of runs, and which traces were used."""
    stand_in = ", made because there are no recordings" * results.links.made
    return f"{counted(results.settings.runs, 'run')} of a case at most; links that no row was trained on{stand_in}"


REPORT = Campaign(
    name="pqsa",
    help="""Compare the statements of the PQSA paper with the simulator.

    A figure has a 95 % interval. ! marks a figure that differs from the statement. docs/pqsa.md explains the
    differences. The ensemble is trained first, unless its file exists. An interrupted campaign continues where it
    stopped. --markdown and --json print the figures that the statements use.

    \b
    Example:
      python -m experiments pqsa --ensemble pqsa.json --only targets --only epochs
    """,
    load=load_settings,
    parts=(
        Part("qos", cases.qos_cases, stated.QOS, partial(views, part="qos"), "Unseen links, figures 7 to 10",
             partial(qos_table, part="qos"), needs_links=True),
        Part("hours", cases.hour_cases, stated.HOURS, partial(varied_views, part="hour"), "Hours, figure 11",
             partial(qos_table, part="hour"), needs_links=True),
        Part("varied", cases.varied_cases, stated.VARIED, partial(varied_views, part="varied"),
             "Another RTT, buffer or duration, figures 2, 3 and 12", partial(qos_table, part="varied"),
             needs_links=True),
        Part("levels", cases.level_cases, stated.LEVELS, lambda results: {"": views(results, part="level")},
             "A low and a high level, figures 13 and 14", partial(qos_table, part="level"), needs_links=True),
        Part("targets", cases.target_cases, stated.TARGETS, partial(views, part="target"), "Targets, table IV",
             partial(qos_table, part="target"), needs_links=True),
        Part("epochs", cases.epoch_cases, stated.EPOCHS, partial(views, part="epochs"), "Epochs and levels, table V",
             partial(qos_table, part="epochs"), needs_links=True),
        Part("fairness", cases.fairness_cases, stated.FAIRNESS, partial(views, part="fairness"),
             "Flows that share a link, by RTT in ms and number, figure 15", fairness_table, needs_links=True),
        Part("paths", cases.path_cases, stated.PATHS, partial(views, part="path"), "A share gain over disturbed paths",
             partial(qos_table, part="path"), needs_links=True),
        Part("dds", lambda _settings, _links: (), searches.DDS, searches.searched, "DDS, section IV", needs_links=True),
        Part("cost", lambda _settings, _links: (), searches.COST, searches.costs, "The cost of an ACK, section V.D"),
    ),
    notes=(),
    describe=describe,
    links=cases.links_of,
    options=(
        click.option("--ensemble", type=click.Path(dir_okay=False, path_type=Path),
                     help="Ensemble of GR; trained and kept if it does not exist  [report-pqsa.parts/ensemble.json]"),
    ),
)  # fmt: skip
command = command_of(REPORT)
