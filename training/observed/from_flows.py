# SPDX-License-Identifier: MIT
"""`ccatune traces from-flows`: rebuilds links from observed flows, and fits paths to them (docs/links.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from emulation.options import FiniteRange, check_output
from emulation.traces._sources import LINKS_FILE, is_trace
from emulation.traces.files import write_file
from kmod.tables import Column, print_table
from kmod.terminal import counted, echo
from training.errors import TrainingError
from training.observed.filling import Filled, filled_links
from training.observed.flow import Flow
from training.observed.links import BRIDGE_S, LEAST_PIECE_S, RebuiltLink, TokenBucket, rebuild
from training.observed.path_model import paths_of, paths_text
from training.observed.policing import limits_of
from training.observed.sources import read_flows
from training.observed.telling import FlowFacts, facts_of
from training.options import as_json_option
from training.progress import Terminal

SCHEMA = "ccatune-observed-links/1"
MOST_REMARKS = 10
BIAS = (
    "The capacity is known only while the flow had packets in the bottleneck's queue. Times in which the link was "
    "faster than the flow are missing, so rebuilt links are slower than the true links. On recorded mobile links the "
    "difference is 1 % with CUBIC flows and 5 % with BBR flows. It is larger with long round trips or random loss. "
    "Between two samples of a log the rate of a link is taken as constant (docs/links.md)."
)


@dataclass(frozen=True, eq=False)
class Seen:
    """A flow, its link and what it tells."""

    flow: Flow
    link: RebuiltLink
    facts: FlowFacts


def see(
    flow: Flow, *, limit: TokenBucket | None = None, bridge_s: float = BRIDGE_S, least_s: float = LEAST_PIECE_S
) -> Seen:
    """Rebuild the link of a flow. limit: that was found on its path."""
    return Seen(flow, rebuild(flow, limit=limit, bridge_s=bridge_s, least_s=least_s), facts_of(flow, limit=limit))


def write_links(seen: Sequence[Seen], folder: Path, *, fill: bool = False) -> dict[str, Any]:
    """Write the pieces of all links into a folder, and links.json, which is returned, after them.

    fill: join the pieces of a flow to one link, and fill the time between them (filling.py).

    Raises TrainingError if the folder holds traces, and as `filled_links`; EmulationError if a file cannot be written.
    """
    _prepare(folder)
    filled = filled_links([one.link for one in seen]) if fill else [None] * len(seen)
    rows = [_row(number, one, its) for number, (one, its) in enumerate(zip(seen, filled, strict=True), 1)]
    for row, one, its in zip(rows, seen, filled, strict=True):
        traces = [piece.trace for piece in one.link.pieces] if its is None else [its.trace]
        for piece, trace in zip(row["pieces"], traces, strict=True):
            write_file(folder / piece["file"], trace.as_file())
    document = {"schema": SCHEMA, "bias": BIAS, "links": rows}
    write_file(folder / LINKS_FILE, (json.dumps(document, indent=1) + "\n").encode())
    return document


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if held := [file.name for file in folder.iterdir() if is_trace(file.name)]:
        raise TrainingError(
            f"{folder}: expected a folder without traces, got {counted(len(held), 'trace')}; name another"
        )


def _row(number: int, one: Seen, filled: Filled | None) -> dict[str, Any]:
    """What links.json says of a flow. No name of a file ends in a number, or `traces` would join the files."""
    stem = f"{number:04}-{re.sub('[^A-Za-z0-9]+', '-', one.flow.name).strip('-')[:80]}"
    pieces = [
        {"file": f"{stem}-{_letters(at)}.down", "start_s": piece.start_s, "duration_s": piece.duration_s,
         "known_share": piece.known_share, "filled_s": [], "mean_rate_mbps": piece.trace.mean_rate_mbps}
        for at, piece in enumerate(one.link.pieces)
    ]  # fmt: skip
    if filled is not None:
        pieces = [{"file": f"{stem}-filled.down", "start_s": filled.start_s, "duration_s": filled.trace.duration_s,
                   "known_share": filled.known_share, "filled_s": [list(span) for span in filled.spans_s],
                   "mean_rate_mbps": filled.trace.mean_rate_mbps}]  # fmt: skip
    limit = one.link.limit
    return {
        "flow": one.flow.name, "source": one.flow.source, "kind": one.flow.kind, "algorithm": one.flow.algorithm,
        "start_s": one.flow.start_s, "duration_s": one.flow.duration_s, "known_share": one.link.known_share,
        "base_rtt_ms": one.link.base_rtt_ms, "resolution_ms": one.link.resolution_ms,
        "limit": None if limit is None else {"rate_mbps": limit.rate_mbps, "burst_bytes": limit.burst_bytes},
        "pieces": pieces, "facts": one.facts.as_json(), "remarks": list(one.flow.remarks),
    }  # fmt: skip


def _letters(number: int) -> str:
    """a, b ... z, ba, bb ... for 0, 1 ..."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    high, low = divmod(number, len(letters))
    return (_letters(high) if high else "") + letters[low]


def _read(paths: Sequence[Path], terminal: Terminal) -> tuple[list[tuple[Flow, TokenBucket | None]], Sequence[str]]:
    """The flows of captures and logs, each with the policer that was found on its path; and remarks on the files."""
    terminal.phase("reading flows", total=1)
    read = read_flows(paths, advance=terminal.advance)
    terminal.phase("rebuilding links", total=len(read.flows))
    return list(zip(read.flows, limits_of(read.flows), strict=True)), read.remarks


@click.command("from-flows")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for the traces and links.json. It is created if it does not exist.")  # fmt: skip
@click.option("--fill", is_flag=True, help="Write one trace for each flow. A fitted generator fills the unknown times "
              "between its pieces; links.json lists them.")  # fmt: skip
@click.option("--paths", "paths_file", metavar="FILE.yaml", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write a distribution of paths that is fitted to the flows, as in configs/paths.")  # fmt: skip
@click.option("--bridge", "bridge_s", type=FiniteRange(0, 60), default=BRIDGE_S, show_default=True,
              help="Longest time of unknown capacity within a piece, in seconds.")  # fmt: skip
@click.option("--least", "least_s", type=FiniteRange(1), default=LEAST_PIECE_S, show_default=True,
              help="Shortest duration of a piece, in seconds.")  # fmt: skip
@as_json_option
def from_flows(
    *, paths: tuple[Path, ...], out: Path | None, fill: bool, paths_file: Path | None, bridge_s: float, least_s: float,
    as_json: bool,
) -> None:  # fmt: skip
    """Rebuild the links of observed flows, from captures, logs of `ss -tin` and files of `ccatune observe`.

    A flow shows its link only while packets wait in the queue of the bottleneck. The other times are left out, or
    filled with --fill. A flow behind a policer yields no trace: links.json has the policer's rate and bucket. `ccatune
    traces check`, `ccatune train --traces` and `ccatune evaluate --traces` read the traces.

    \b
    Example:
      ccatune traces from-flows capture.pcap /var/lib/ccatune-observe -o mine
      ccatune traces from-flows ss.log --paths mine.yaml
    """
    if out is None and paths_file is None:
        raise click.UsageError("expected -o FOLDER or --paths FILE.yaml, got neither")
    if paths_file is not None:
        _check_name(paths_file)
        check_output(paths_file)
    if out is not None:
        _prepare(out)
    with Terminal(quiet=as_json) as terminal:
        flows, remarks = _read(paths, terminal)
        seen = []
        for flow, limit in flows:
            seen.append(see(flow, limit=limit, bridge_s=bridge_s, least_s=least_s))
            terminal.advance(1)
    document = {"links": [_row(number, one, None) for number, one in enumerate(seen, 1)]}
    if out is not None:
        document = write_links(seen, out, fill=fill)
    if paths_file is not None:
        facts = [one.facts for one in seen]
        fitted = paths_of(facts, name=paths_file.stem)
        write_file(paths_file, paths_text(fitted, facts).encode())
    if as_json:
        echo(json.dumps({**document, "remarks": list(remarks)}, indent=1))
    else:
        _print(seen, document, remarks, out=out, paths_file=paths_file)


def _check_name(file: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", file.stem) or file.suffix != ".yaml":
        raise click.UsageError(
            f"--paths: expected a name of lower-case letters, digits and hyphens with .yaml, got {file.name}"
        )


def _print(
    seen: Sequence[Seen], document: dict[str, Any], remarks: Sequence[str], *, out: Path | None, paths_file: Path | None
) -> None:
    columns = [Column("flow", least=16), Column("algorithm")]
    headings = ("seconds", "backlogged", "base\nRTT ms", "policer\nMbit/s", "pieces", "seconds\nin pieces",
                "mean\nMbit/s")  # fmt: skip
    cells = []
    for one, row in zip(seen, document["links"], strict=True):
        seconds = sum(piece["duration_s"] for piece in row["pieces"])
        carried = sum(piece["duration_s"] * piece["mean_rate_mbps"] for piece in row["pieces"])
        limit = one.link.limit
        cells.append((
            one.flow.name, one.flow.algorithm or "-", f"{one.flow.duration_s:.0f}", f"{one.link.known_share:.0%}",
            f"{one.link.base_rtt_ms:.1f}", "-" if limit is None else f"{limit.rate_mbps:.2f}",
            f"{len(row['pieces'])}", f"{seconds:.0f}", f"{carried / seconds:.2f}" if seconds else "-",
        ))  # fmt: skip
    print_table([*columns, *(Column(heading, "right") for heading in headings)], cells)
    for remark in remarks[:MOST_REMARKS]:
        echo(remark)
    if len(remarks) > MOST_REMARKS:
        echo(f"{counted(len(remarks) - MOST_REMARKS, 'more remark')}, which --json lists")
    whole_s = sum(one.flow.duration_s for one in seen)
    known_s = sum(one.link.known_s for one in seen)
    kept_s = sum(piece["duration_s"] for row in document["links"] for piece in row["pieces"])
    empty = sum(not row["pieces"] for row in document["links"])
    echo(f"{counted(len(seen), 'flow')} of {whole_s:.0f} s in all, backlogged for {known_s:.0f} s; "
         f"{kept_s:.0f} s in pieces, bridged and filled times included; "
         f"{counted(empty, 'flow')} without a piece")  # fmt: skip
    echo(BIAS)
    if out is not None:
        echo(f"{out}: {counted(sum(len(row['pieces']) for row in document['links']), 'trace')} and links.json")
    if paths_file is not None:
        echo(f"{paths_file}: paths fitted to {counted(len(seen), 'flow')}")
