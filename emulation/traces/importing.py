# SPDX-License-Identifier: MIT
"""Converts links of public datasets to traces in Mahimahi's format: `ccatune traces import`.

    tables of rates    CSV files and Pensieve's cooked files (_tables.py). An opportunity comes whenever the rate has
                       delivered 1500 bytes since the last one, rounded up to whole ms. The last line is the end of the
                       recording. It adds an opportunity at most.
    LeoReplayer        bw_X.txt is a trace already, and is copied. delay_X.txt beside it has a line for each 10 ms with
                       the delay of one direction in ms. It becomes a file of delays (docs/delays.md). Both repeat.

A new file has the name of its source with `-link` at the end, so that numbers at the end of a name do not make it a
piece of a series (recording.py). The folders below a given folder are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from emulation.errors import TraceError
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.traces._sources import MAX_FILE_BYTES
from emulation.traces._tables import Piece, read_table, row_of_numbers
from emulation.traces.reader import read_recordings
from emulation.traces.recording import MAX_RECORDING_MS
from emulation.traces.trace import OPPORTUNITY_BYTES, Trace
from kmod.ensemble import write_atomically

MOST_OPPORTUNITIES = 10**8
AT_ONCE = 10**6
KBIT_PER_OPPORTUNITY = OPPORTUNITY_BYTES * 8 / 1000
MOST_LENGTH_RATIO = 1.1
HEAD_BYTES = 4096
TABLE_SUFFIXES = (".csv", ".tsv")
DELAYS_SUFFIX = ".delays"
OWN_SUFFIXES = (".down", ".up", ".trace", DELAYS_SUFFIX)
SOURCE_SUFFIXES = (*TABLE_SUFFIXES, ".txt", ".log", ".dat")
PAIR = re.compile(r"(bw|delay)(.*\.txt)")


@dataclass(frozen=True)
class Choices:
    """What the user states about the sources. column, time_column: as in _tables.read_table."""

    column: str | None = None
    time_column: str | None = None
    delay_interval_ms: float = 10


@dataclass(frozen=True)
class Imported:
    """A trace, and the file for it. columns: what was recognised in its source.

    trace: None if the link carries no packet. Then no file is written.
    """

    source: Path
    columns: str
    file: Path
    trace: Trace | None
    delays: BaseDelay | None = None

    @property
    def delays_file(self) -> Path | None:
        """The file for the delays beside the trace."""
        return None if self.delays is None else self.file.with_suffix(DELAYS_SUFFIX)


def import_traces(paths: Sequence[Path], out: Path, *, choices: Choices, unread: list[str]) -> Iterator[Imported]:
    """Convert files and folders, and write each trace into the folder `out` completely or not at all.

    unread: receives the names of the files in folders that have none of the formats.

    Raises TraceError for a file that cannot be converted, for two traces of one name, and if there is nothing to
    convert. Traces before it are then written already.
    """
    stored: dict[Path, Path] = {}
    done: set[Path] = set()
    for path in paths:
        for found, folder in _sources(path, unread):
            source = _link_of_pair(found)
            if source.resolve() in done:
                continue
            done.add(source.resolve())
            convert = _import_pair if PAIR.fullmatch(source.name) else _import_table
            for imported in convert(source, out / folder, choices):
                if imported.file in stored:
                    other = stored[imported.file]
                    raise TraceError(f"{source}: expected another name than that of {other}; rename one of them")
                stored[imported.file] = source
                _store(imported)
                yield imported
    if not done:
        listed = ", ".join(str(path) for path in paths)
        raise TraceError(f"{listed}: expected CSV files, Pensieve's or LeoReplayer's files, got none of them")


def opportunities_of(piece: Piece, *, name: str) -> Trace | None:
    """The trace of a piece of a table; None if it carries less than one opportunity.

    Raises TraceError for more than 24 h or MOST_OPPORTUNITIES.
    """
    length_s = float(piece.edges_s[-1] - piece.edges_s[0])
    if not 1 <= length_s * 1000 <= MAX_RECORDING_MS:
        raise TraceError(f"{name}: expected 1 ms to 24 h, got {length_s:g} s; cut the file in pieces")
    edges_ms = 1000 * (piece.edges_s - piece.edges_s[0])
    period_ms = round(1000 * length_s)
    carried = np.concatenate(([0.0], np.cumsum(piece.rates_mbps * np.diff(edges_ms)))) / KBIT_PER_OPPORTUNITY
    n_whole = int(min(carried[-1] + 1e-6, 2 * MOST_OPPORTUNITIES))
    if n_whole > MOST_OPPORTUNITIES:
        mbps = carried[-1] * KBIT_PER_OPPORTUNITY / period_ms
        raise TraceError(
            f"{name}: expected at most {MOST_OPPORTUNITIES} opportunities, got {carried[-1]:.3g} ({mbps:.4g} Mbit/s "
            f"for {period_ms / 1000:g} s); check the unit of the rates, or cut the file in pieces"
        )
    if not n_whole:
        return None
    times_ms = np.full(n_whole + 1, period_ms, dtype=np.uint32)
    for start in range(0, n_whole, AT_ONCE):
        counts = np.arange(start + 1, min(start + AT_ONCE, n_whole) + 1)
        row = np.minimum(np.searchsorted(carried, counts, side="left"), len(carried) - 1) - 1
        at_ms = edges_ms[row] + (counts - carried[row]) * KBIT_PER_OPPORTUNITY / piece.rates_mbps[row]
        times_ms[start : start + len(counts)] = np.minimum(np.ceil(at_ms - 1e-6), period_ms)
    return Trace(name, times_ms[: n_whole if times_ms[n_whole - 1] == period_ms else n_whole + 1], period_ms)


def _sources(path: Path, unread: list[str]) -> Iterator[tuple[Path, Path]]:
    """The files to convert at or below a path, each with its folder below the path."""
    if path.is_file():
        yield path, Path()
        return
    if not path.is_dir():
        raise TraceError(f"{path}: expected a file or a folder, got nothing there; check the path")
    for below in sorted(path.rglob("*")):
        parts = below.relative_to(path)
        if any(part.startswith(".") for part in parts.parts) or not below.is_file():
            continue
        if below.name.endswith(TABLE_SUFFIXES) or _is_of_pair(below) or _is_pensieve(below):
            yield below, parts.parent
        else:
            unread.append(str(below))


def _is_of_pair(path: Path) -> bool:
    match = PAIR.fullmatch(path.name)
    return match is not None and all((path.parent / f"{side}{match[2]}").is_file() for side in ("bw", "delay"))


def _is_pensieve(path: Path) -> bool:
    if path.name.endswith(OWN_SUFFIXES):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: expected a readable file, got {error.strerror}; check its permissions") from error
    line = next((line for line in head.decode("utf-8-sig", errors="replace").splitlines() if line.strip()), "")
    return len(row_of_numbers(line)) == 2


def _link_of_pair(path: Path) -> Path:
    """The link of a file of LeoReplayer, which may be the file of delays; any other path is returned as it is."""
    match = PAIR.fullmatch(path.name)
    if match is None:
        return path
    if not _is_of_pair(path):
        other = f"{'delay' if match[1] == 'bw' else 'bw'}{match[2]}"
        raise TraceError(f"{path}: expected LeoReplayer's {other} beside it, got no such file")
    return path.with_name(f"bw{match[2]}")


def _import_table(source: Path, folder: Path, choices: Choices) -> Iterator[Imported]:
    if source.name.endswith(OWN_SUFFIXES):
        raise TraceError(f"{source}: expected a file of another format, got the name of a trace or of delays")
    n_bytes = source.stat().st_size
    if n_bytes > MAX_FILE_BYTES:
        raise TraceError(f"{source}: expected at most {MAX_FILE_BYTES} bytes, got {n_bytes}; cut the file")
    table = read_table(source, column=choices.column, time_column=choices.time_column)
    for piece in table.pieces:
        words = [_stem(source), *([piece.name] if piece.name else []), "link"]
        file = folder / f"{'-'.join(words)}.{table.direction}"
        trace = opportunities_of(piece, name=f"{source}{f' ({piece.name})' if piece.name else ''}")
        yield Imported(source, table.columns, file, trace)


def _import_pair(source: Path, folder: Path, choices: Choices) -> Iterator[Imported]:
    (recording,) = read_recordings(source)
    delays = _delays(source.with_name(source.name.replace("bw", "delay", 1)), choices.delay_interval_ms)
    lengths_s = sorted([recording.duration_s, delays.period_s or 0])
    if lengths_s[1] > MOST_LENGTH_RATIO * lengths_s[0]:
        raise TraceError(
            f"{source}: expected delays for the {recording.duration_s:g} s of the link, got {delays.period_s:g} s; if "
            f"their interval is not {choices.delay_interval_ms:g} ms, give --delay-interval-ms"
        )
    columns = f"a trace, with delays of one direction in ms, every {choices.delay_interval_ms:g} ms"
    yield Imported(source, columns, folder / f"{_stem(source)}-link.down", recording.trace, delays)


def _delays(path: Path, interval_ms: float) -> BaseDelay:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: expected a text with a delay in ms per line, got {error}") from error
    steps: list[DelayStep] = []
    try:
        for line, same in groupby(enumerate(lines), key=lambda numbered: numbered[1].strip()):
            number = next(same)[0]
            delay_ms = row_of_numbers(line)
            steps.append(
                DelayStep(at_s=number * interval_ms / 1000, rtt_ms=2 * delay_ms[0] if len(delay_ms) == 1 else 0)
            )
        return BaseDelay(steps=tuple(steps), period_s=len(lines) * interval_ms / 1000)
    except ValidationError as error:
        where = f"{path}, line {number + 1}" if lines else str(path)
        got = repr(line[:60]) if lines else "no line"
        raise TraceError(f"{where}: expected a delay above 0, of at most 30000 ms, got {got}") from error


def _stem(source: Path) -> str:
    return source.stem if source.suffix in SOURCE_SUFFIXES else source.name


def _store(imported: Imported) -> None:
    try:
        imported.file.parent.mkdir(parents=True, exist_ok=True)
        if imported.trace is not None:
            write_atomically(imported.file, imported.trace.as_file())
        if imported.delays is not None and imported.delays_file is not None:
            write_atomically(imported.delays_file, imported.delays.as_file().encode())
    except OSError as error:
        raise TraceError(f"{imported.file}: expected a file that can be written, got {error.strerror}") from error
