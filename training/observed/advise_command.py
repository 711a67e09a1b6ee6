# SPDX-License-Identifier: MIT
"""`ccatune advise`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from emulation.options import FiniteRange, check_output
from kmod.abi import ALGORITHMS
from kmod.tables import Column, print_table
from kmod.terminal import counted, echo
from training.observed.candidates import LEAST_TARGET_MS, MOST_TARGET_MS
from training.options import as_json_option, threads_option

FASTEST_MBPS = 2500.0  # what the simulator runs in the time that the command may take
SEGMENTS = ("flow", "segment", "packets", "lost", "policed", "rate_mbps", "burst_bytes")


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER|CAPTURE|LOG...")
@click.option("--target-ms", type=FiniteRange(LEAST_TARGET_MS, MOST_TARGET_MS), default=100.0, show_default=True,
              help="Queueing delay that 95 % of the packets should not exceed")  # fmt: skip
@click.option("--current", type=click.Choice(list(ALGORITHMS)),
              help="The algorithm that runs today  [default: each flow's own; cubic if unknown]")  # fmt: skip
@click.option(
    "--segments",
    is_flag=True,
    help="Give no advice; list the segments of the flows, whether each met a policer, and its rate",
)
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Also write the advice as a web page with figures")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True, help="Seed of the simulated runs"
)
@threads_option
@as_json_option
def advise(
    *, paths: tuple[Path, ...], target_ms: float, current: str | None, segments: bool, page: Path | None, seed: int,
    threads: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Say which congestion control, with which settings, suits the network of observed flows, and why.

    The inputs are captures (pcap, pcapng), logs of `ss -tin` with times, files of `ccatune observe`, or
    folders of them. The command rebuilds the links of the flows, and runs every candidate on
    them in the simulator. It advises a change only where the gain is larger than its
    uncertainty. The exit status is 0 with and without an advice.

    The default target of 100 ms leaves 50 ms for propagation within the 150 ms of one-way
    delay that ITU-T G.114 recommends for conversations.

    \b
    Example:
      ccatune advise server.pcap
      ccatune advise logs/ --target-ms 50 --html advice.html
    """
    if page is not None and segments:
        raise click.UsageError("--html: expected without --segments, which make no page")
    if page is not None:
        check_output(page)
    if segments:
        _show_segments(paths, as_json=as_json)
    else:
        _show_advice(paths, target_ms=target_ms, current=current, page=page, seed=seed, threads=threads,
                     as_json=as_json)  # fmt: skip


def _show_segments(paths: tuple[Path, ...], *, as_json: bool) -> None:
    from training.observed.policing import segments_of
    from training.observed.sources import read_flows

    rows = segments_of(read_flows(paths).flows)
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    cells = [["" if row[name] is None else _cell(row[name]) for name in SEGMENTS] for row in rows]
    print_table([Column(SEGMENTS[0], least=12), *(Column(name.replace("_", " "), "right") for name in SEGMENTS[1:])],
                cells)  # fmt: skip


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _show_advice(
    paths: tuple[Path, ...], *, target_ms: float, current: str | None, page: Path | None, seed: int,
    threads: int | None, as_json: bool,
) -> None:  # fmt: skip
    from emulation.traces.files import write_file
    from training.observed import sources
    from training.observed.advice import advise as advise_links
    from training.observed.advice_page import page_text
    from training.observed.advice_report import report_json, report_lines
    from training.progress import Terminal

    serial, now = int(time.time()), datetime.now(UTC)
    with Terminal(quiet=as_json) as terminal:
        terminal.phase("reading flows", total=1)
        observed = sources.read_flows(paths, advance=terminal.advance)
        terminal.phase("rebuilding links", total=1)
        links = sources.links_of(observed.flows, advance=terminal.advance)
        remarks = [*observed.remarks, *sources.remarks_on(observed.flows, links)]
        if fast := sum(link.mean_mbps > FASTEST_MBPS for link in links):
            links = [link for link in links if link.mean_mbps <= FASTEST_MBPS]
            remarks.append(f"Left out: {counted(fast, 'link')} faster than {FASTEST_MBPS:g} Mbit/s.")
        terminal.phase("simulating candidates", total=1)
        advice = advise_links(links, target_ms=target_ms, current=current, seed=seed, threads=threads,
                              advance=terminal.advance)  # fmt: skip
    for remark in remarks:
        echo(remark, err=True)
    if page is not None:
        write_file(page, page_text(advice, observed.flows, serial=serial, now=now).encode())
    if as_json:
        document = {**report_json(advice, serial=serial), "flows": len(observed.flows), "remarks": remarks}
        echo(json.dumps(document, indent=1))
    else:
        echo("\n".join(report_lines(advice, serial=serial)))
