# SPDX-License-Identifier: MIT
"""`python -m experiments policing`: compares statements of R-TCP 2026 on files behind a policer with the simulator."""

from __future__ import annotations

from functools import partial

import click
from matplotlib.figure import Figure as Picture

from emulation.figure import new_figure
from emulation.run.plot import FLOW_COLOURS, INK, STYLE
from emulation.scenario.files import read_settings
from experiments.campaign import Campaign, Part, Results
from experiments.command import command_of
from experiments.figures import draw_rates, markdown_table, megabytes
from experiments.policing.cases import CCAS, PolicingSettings, cases_of
from experiments.policing.statements import NAMES, STATEMENTS, View

MARKS = dict(zip(CCAS, ("o", "s", "^"), strict=True))


def views_of(results: Results[PolicingSettings]) -> dict[str, View]:
    """The results at each access rate."""
    return {f"{rate:g} Mbit/s": View(results, rate) for rate in results.settings.access_mbps}


def words_of(settings: PolicingSettings) -> dict[str, str]:
    """The sizes that the names in the statements' words stand for."""
    small, first, second, *_, last = map(megabytes, settings.sizes_bytes)
    return {"small": small, "first": first, "second": second, "last": last}


def rates_table(results: Results[PolicingSettings]) -> list[str]:
    """Mean retransmission rates in percent at the operator's RTT, with a row for each access rate and algorithm."""
    first, *others = (f"{size / 1e6:g}" for size in results.settings.sizes_bytes)
    rows = [
        (at if cca == CCAS[0] else "", NAMES[cca],
         *(f"{100 * view.rate(cca, size).mean():.1f}" for size in results.settings.sizes_bytes))
        for at, view in views_of(results).items() for cca in CCAS
    ]  # fmt: skip
    return markdown_table(("access", "algorithm", f"{first} MB", *others), rows)


def draw(results: Results[PolicingSettings]) -> Picture:
    """The retransmission rate over the file size, with a row of panels for each RTT and a column for each access rate.

    A line is an algorithm's mean over the seeds, and its shade is the 95 % interval of that mean.
    """
    settings = results.settings
    rtts_ms, rates = settings.all_rtts_ms, settings.access_mbps
    figure = new_figure(1.5 + 3.1 * len(rates), 1.2 + 2.0 * len(rtts_ms))
    panels = figure.subplots(len(rtts_ms), len(rates), sharex=True, sharey=True, squeeze=False)
    for row, rtt_ms in zip(panels, rtts_ms, strict=True):
        for axes, view in zip(row, views_of(results).values(), strict=True):
            for cca, colour in zip(CCAS, FLOW_COLOURS, strict=False):
                draw_rates(axes, settings.sizes_bytes, [view.rate(cca, size, rtt_ms) for size in settings.sizes_bytes],
                           name=NAMES[cca], bucket_bytes=settings.bucket_bytes, color=colour, marker=MARKS[cca], ms=4,
                           **STYLE)  # fmt: skip
            axes.label_outer()
        row[0].set_ylabel(f"RTT {rtt_ms:g} ms\nretransmitted (%)", color=INK)
    for axes, at in zip(panels[0], views_of(results), strict=True):
        axes.set_title(f"access {at}", color=INK, fontsize=10)
    panels[0][0].set_ylim(bottom=0)  # the panels share this axis, so that it covers the data of all
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def describe(results: Results[PolicingSettings]) -> str:
    """The number of seeds, and of files that did not complete."""
    incomplete = sum(
        int((columns["complete"] == 0).sum()) for columns in results.cases.values() if "complete" in columns
    )
    return f"{results.settings.seeds} seeds; files that did not complete: {incomplete}"


POLICING = Campaign(
    name="policing",
    help="""Compare the R-TCP paper's statements on policed files with the simulator, at each access rate.

    A figure is a mean over the seeds with its 95 % interval. ! marks a figure that differs from the statement. BBRv3 is
    unvalidated, because no kernel here has it. docs/policing.md gives the differences and their reasons.

    \b
    Example:
      python -m experiments policing --plot policing.png
    """,
    load=partial(read_settings, model=PolicingSettings),
    parts=(Part("files", cases_of, STATEMENTS, views_of, table=rates_table),),
    notes=(
        "* unvalidated: no kernel here has BBRv3",
        "BBRv2, of which section 3.1 says what 3.1-4 and 3.1-6 say of BBRv3, is not in the simulator",
    ),
    describe=describe,
    draw=draw,
    drawn=("files",),
    words=words_of,
    options=(
        click.option("--seeds", type=click.IntRange(5, 10_000), help="Runs of each case  [the config's]"),
        click.option("--policer", type=click.Choice(["before", "behind"]), help="Of the access link  [the config's]"),
    ),
)
command = command_of(POLICING)
