# SPDX-License-Identifier: MIT
"""`python -m experiments roccet`: compares the ROCCET paper's statements with the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from emulation.traces import default_traces, read
from experiments.campaign import Campaign, Links, Part, Results, made_like
from experiments.command import command_of
from experiments.figures import heads_of, markdown_table, with_interval
from experiments.roccet.buffers import buffers_cases, buffers_table
from experiments.roccet.cases import (
    FIRSTS,
    KINDS,
    RIVALS,
    frozen_cases,
    halved_cases,
    recorded_cases,
    share_cases,
)
from experiments.roccet.made import FROZEN, HALVED, NAMES, frozen_views, halved_views
from experiments.roccet.plot import draw
from experiments.roccet.recorded import RECORDED, recorded_views
from experiments.roccet.settings import RoccetSettings, load_settings
from experiments.roccet.share import SHARED, share_views
from kmod.terminal import counted

SCHEMES = ("roccet", *RIVALS)
QUARTILES = {"p25": 0.25, "median": 0.5, "p75": 0.75}
MODELS = Path(__file__).resolve().parents[2] / "configs" / "traces"
MODEL_NAMES = {"stationary": "cellular-4g.json", "mobile": "cellular-driving.json"}
HALVED_COLUMNS = ("rtt_before_ms", "rtt_after_ms", "goodput_before_mbps", "goodput_after_mbps")


def halved_table(results: Results[RoccetSettings]) -> list[str]:
    """Smoothed RTT (a run's median) and goodput before and after the change: means with their 95 % intervals."""
    rows = []
    for at, get in halved_views(results).items():
        for scheme in SCHEMES:
            cells = (with_interval(get(scheme, name)) for name in HALVED_COLUMNS)
            rows.append((*at.split(", "), NAMES[scheme], *cells))
    heads = ("RTT", "buffer", "algorithm", "RTT before, ms", "after", "goodput before, Mbit/s", "after")
    return markdown_table(heads, rows)


def recorded_table(results: Results[RoccetSettings]) -> list[str]:
    """Quartiles of the goodput over the runs, and of the smoothed RTTs of all runs."""
    heads = ("links", "algorithm", *(f"goodput {name}, Mbit/s" for name in QUARTILES),
             *(f"RTT {name}, ms" for name in QUARTILES))  # fmt: skip
    rows = []
    for at, (_, get) in recorded_views(results).items():
        for scheme in SCHEMES:
            goodputs, rtts = (
                np.quantile(get(scheme, name), list(QUARTILES.values())) for name in ("goodput_mbps", "rtts_ms")
            )
            rows.append((at, NAMES[scheme], *(f"{x:.2f}" for x in goodputs), *(f"{x:.0f}" for x in rtts)))
    return markdown_table(heads, rows)


def share_table(results: Results[RoccetSettings]) -> list[str]:
    """The one flow's share over its equal share, by link, algorithm, number of ROCCET flows and buffer; 1: equal."""
    share = results.settings.share
    first, *others = heads_of(share.buffers_bdp, "BDP")
    rows = [
        (at, NAMES[cca], str(n), *(f"{link.ratio(cca, buffer, n).mean():.2f}" for buffer in share.buffers_bdp))
        for at, link in share_views(results).items() for cca in FIRSTS for n in share.roccet_flows
    ]  # fmt: skip
    return markdown_table(("link", "one flow of", "ROCCET flows", f"buffer {first}", *others), rows)


def links_of(settings: RoccetSettings, paths: Sequence[Path]) -> Links:
    """The recordings of both kinds of links; synthetic ones of the same kinds if there are none."""
    found = list(paths) or default_traces()
    if found is None:
        return Links({kind: made_like(MODELS / name) for kind, name in MODEL_NAMES.items()}, made=True)
    datasets = {kind: getattr(settings.recorded, kind).dataset for kind in KINDS}
    recordings = read(found, wanted=set(datasets.values()).__contains__).recordings
    return Links({kind: [r for r in recordings if r.dataset == dataset] for kind, dataset in datasets.items()})


def describe(results: Results[RoccetSettings]) -> str:
    """The number of seeds, and which traces were used."""
    traces = f"; traces {'made' if results.links.made else 'recorded'}" if results.links.recordings else ""
    return f"{counted(results.settings.seeds, 'seed')} on made links{traces}"


ROCCET = Campaign(
    name="roccet",
    help="""Compare the ROCCET paper's statements, and this project's targets, with the simulator.

    A figure has a 95 % interval. ! marks a figure that differs from the statement. BBRv3 is unvalidated, because no
    kernel here has it. docs/roccet.md gives the differences and their reasons. The whole campaign takes half an hour on
    two processors. If it is interrupted, it continues where it stopped. --markdown and --json print the figures that
    the statements use: RTT and goodput before and after the change, their distributions on recorded links, and every
    share.

    \b
    Example:
      python -m experiments roccet --only frozen --only halved --plot roccet.png
    """,
    load=load_settings,
    parts=(
        Part("frozen", frozen_cases, FROZEN, frozen_views, "The frozen window, section III"),
        Part("halved", halved_cases, HALVED, halved_views, "Capacity halved, section IX", halved_table),
        Part("recorded", recorded_cases, RECORDED, recorded_views, "Recorded links, sections VI and VII",
             recorded_table, needs_links=True),
        Part("share", share_cases, SHARED, share_views, "Bandwidth share and harm, section VIII", share_table),
        Part("buffers", buffers_cases, (), title="Buffers of 0.5 BDP and more, alone and sharing", table=buffers_table,
             needs_links=True),
    ),
    notes=("* unvalidated: no kernel here has the BBRv3 of its authors",),
    describe=describe,
    draw=draw,
    drawn=("halved", "recorded", "share"),
    links=links_of,
    options=(
        click.option("--seeds", type=click.IntRange(5, 10_000), help="Runs of each case on a made link  [the config]"),
    ),
)  # fmt: skip
command = command_of(ROCCET)
