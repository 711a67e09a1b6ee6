# SPDX-License-Identifier: MIT
"""Reads tables of rates over time: CSV files with a header, and Pensieve's cooked files.

    CSV        a column of rates, a column of times, and others. The rate of a row holds until the time of the next
               row, and that of the last row for the median step between rows. Rows of one time count as their mean.
               Where rows are more than MAX_GAP_STEPS median steps apart, the link is unknown, and a new piece begins.
               A column run_num divides the rows into runs.
    Pensieve   no header, two columns: time in s, rate in Mbit/s. The rate of a row holds since the time of the row
               before it, as in Pensieve's simulator; the first row is only the start.

The unit of a rate is that of its column's name (throughput_mbps, "DL (kbit/s)"), or is known for the public datasets

    5Gdataset of UCC (Raca et al. 2020)      DL_bitrate and UL_bitrate in kbit/s, times in Timestamp
    Lumos5G (Narayanan et al. 2020)          Throughput in Mbit/s, times in seq_num in s, runs in run_num

or is given by the user. Everything else is refused, because a wrong unit gives a link that is 1000 times too fast.
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from kmod.terminal import counted, listed

Floats = NDArray[np.float64]

MAX_GAP_STEPS = 5
MOST_STEP_S = 60
# In s this is the year 5138, so that larger numbers are the ms since 1970.
MOST_TIME_S = 1e11
MOST_RATE_MBPS = 1e6
MOST_COLUMNS_SHOWN = 30
WITHOUT_RATE = frozenset({"", "-", "na", "nan", "null", "none"})
TIME_FORMAT = "%Y.%m.%d_%H.%M.%S"
RUN_COLUMN = "run_num"
RATE_UNIT = re.compile(r"(?:^|[^A-Za-z0-9])([kKmMgG]?)(?:bps|bits?/s)[)\]]?$")
RATE_FACTORS = {"": 1e-6, "k": 1e-3, "m": 1.0, "g": 1e3}
_shown = partial(listed, most=MOST_COLUMNS_SHOWN)
TIME_NAME = re.compile(r"(?:timestamp|time|datetime|seconds|seq_num)(?:\W|_)*(s|sec|seconds|ms)?[)\]]?", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rates of one piece of a table: rates_mbps [n] hold between edges_s [n + 1]. name: "" for a table of one piece."""

    name: str
    edges_s: Floats
    rates_mbps: Floats


@dataclass(frozen=True)
class RateTable:
    """The content of a table. columns: the recognised columns and units, for the user."""

    columns: str
    direction: Literal["down", "up"]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class _Column:
    name: str
    unit: str
    factor: float
    """unit: "" for a column of times whose unit is not stated."""


def row_of_numbers(line: str) -> list[float]:
    """The finite numbers of a line, separated by blanks; no numbers if it contains anything else."""
    try:
        values = [float(word) for word in line.split()]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []


def read_table(path: Path, *, column: str | None, time_column: str | None) -> RateTable:
    """Read a table of rates.

    column: the column of rates, as NAME or NAME:UNIT; time_column: the column of times, as NAME, NAME:s or NAME:ms.
    None: they are recognised by the rules at the top of this module.

    Raises TraceError, with the line, for a file that is neither of the two formats or whose columns are ambiguous, for
    times that decrease, and for rates that are no numbers of at least 0.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = ((number, line.rstrip("\r\n")) for number, line in enumerate(file, start=1))
            first = next(((number, line) for number, line in lines if line.strip()), (1, ""))
            if len(row_of_numbers(first[1])) == 2:
                if column or time_column:
                    raise TraceError(f"{path}: expected a header with the named column, got two columns of numbers")
                return _pensieve(path, [first, *lines])
            delimiter = max(",;\t", key=first[1].count)
            header = [name.strip() for name in next(csv.reader([first[1]], delimiter=delimiter))]
            if len(header) < 2 or any(row_of_numbers(name) for name in header):
                raise TraceError(
                    f"{path}, line {first[0]}: expected the names of columns, or a time in s and a rate in Mbit/s, got "
                    f"{first[1][:60]!r}"
                )
            cells = csv.reader((line for _, line in lines), delimiter=delimiter)
            rows = ((first[0] + cells.line_num, row) for row in cells)
            return _csv(path, header, rows, column, time_column)
    except OSError as error:
        raise TraceError(f"{path}: expected a readable file, got {error.strerror}; check its permissions") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: expected a text with a table of rates, got other data ({error})") from error


def _pensieve(path: Path, lines: Sequence[tuple[int, str]]) -> RateTable:
    rows: list[tuple[int, float, float]] = []
    for number, line in lines:
        values = row_of_numbers(line)
        if line.strip() and (len(values) != 2 or values[0] > MOST_TIME_S or not 0 <= values[1] <= MOST_RATE_MBPS):
            raise TraceError(f"{path}, line {number}: expected a time in s and a rate in Mbit/s, got {line[:60]!r}")
        if values:
            rows.append((number, values[0], values[1]))
    times_s, rates_mbps = _ascending(path, rows)
    if len(times_s) < 2:
        raise TraceError(f"{path}: expected at least two rows, got {len(rows)}")
    piece = Piece("", times_s, rates_mbps[1:])
    return RateTable("column 2 in Mbit/s, times in column 1 in s", "down", (piece,))


def _csv(
    path: Path, header: list[str], rows: Iterator[tuple[int, list[str]]], column: str | None, time_column: str | None
) -> RateTable:
    rate = _rate_column(path, header, column)
    time = _time_column(path, header, time_column)
    at_rate, at_time = header.index(rate.name), header.index(time.name)
    at_run = header.index(RUN_COLUMN) if RUN_COLUMN in header else None
    runs: defaultdict[str, list[tuple[int, float, float]]] = defaultdict(list)
    n_without_rate, is_date = 0, False
    for number, row in rows:
        if not row:
            continue
        cells = [cell.strip() for cell in row] + [""] * (len(header) - len(row))
        if cells[at_rate].lower() in WITHOUT_RATE:
            n_without_rate += 1
            continue
        where = f"{path}, line {number}"
        values = row_of_numbers(cells[at_rate])
        if len(values) != 1 or not 0 <= values[0] * rate.factor <= MOST_RATE_MBPS:
            expected = f"a rate in {rate.unit} of 0 to {MOST_RATE_MBPS:g} Mbit/s in {rate.name}"
            raise TraceError(f"{where}: expected {expected}, got {cells[at_rate][:60]!r}")
        run = "" if at_run is None else "run" + re.sub(r"[^A-Za-z0-9._-]+", "_", cells[at_run])
        time_s, is_date = _seconds(cells[at_time], time, where)
        runs[run].append((number, time_s, values[0] * rate.factor))
    pieces = [piece for name, found in runs.items() for piece in _pieces(path, name, found)]
    if not pieces:
        raise TraceError(f"{path}: expected rows with a rate in {rate.name}, got none")
    direction: Literal["down", "up"] = "up" if rate.name.lower().startswith(("ul", "up")) else "down"
    columns = f"{rate.name} in {rate.unit}, times in {time.name} ({'dates' if is_date else time.unit or 's'})"
    if n_without_rate:
        columns += f", without {counted(n_without_rate, 'row that has no rate', 'rows that have no rate')}"
    return RateTable(columns, direction, tuple(pieces))


def _rate_column(path: Path, header: list[str], chosen: str | None) -> _Column:
    found: dict[str, _Column] = {}
    for name in header:
        if match := RATE_UNIT.search(name):
            found[name] = _rate(name, match)
    if {"Timestamp", "DL_bitrate"} <= set(header):
        found |= {name: _Column(name, "kbit/s", 1e-3) for name in ("DL_bitrate", "UL_bitrate") if name in header}
    if {RUN_COLUMN, "seq_num", "Throughput"} <= set(header):
        found["Throughput"] = _Column("Throughput", "Mbit/s", 1.0)
    if chosen is not None:
        name, unit = _named(path, header, chosen, option="--column")
        if unit and (match := RATE_UNIT.fullmatch(unit)):
            return _rate(name, match)
        if not unit and name in found:
            return found[name]
        raise TraceError(f"{path}: expected a unit of {name}, such as --column {name}:kbit/s, got {unit or 'none'}")
    likely = [column for name, column in found.items() if name != "UL_bitrate"]
    if len(likely) == 1 and header.count(likely[0].name) == 1:
        return likely[0]
    raise TraceError(
        f"{path}: expected one column of rates with its unit, such as throughput_mbps, got "
        f"{_shown([column.name for column in likely] or header)}; name it, for example --column NAME:kbit/s"
    )


def _rate(name: str, match: re.Match[str]) -> _Column:
    prefix = match[1].lower()
    return _Column(name, f"{prefix.upper() if prefix in {'m', 'g'} else prefix}bit/s", RATE_FACTORS[prefix])


def _time_column(path: Path, header: list[str], chosen: str | None) -> _Column:
    if chosen is not None:
        name, unit = _named(path, header, chosen, option="--time-column")
        if unit not in {"", "s", "ms"}:
            raise TraceError(f"{path}: expected --time-column {name}:s or {name}:ms, got {unit}")
        return _Column(name, unit, 1e-3 if unit == "ms" else 1.0)
    found = [(name, match) for name in header if (match := TIME_NAME.fullmatch(name))]
    if len(found) != 1:
        raise TraceError(
            f"{path}: expected one column of times, such as Timestamp or time_s, got "
            f"{_shown([name for name, _ in found] or header)}; name it, for example --time-column NAME:ms"
        )
    name, match = found[0]
    unit = (match[1] or "").lower()
    return _Column(name, unit if unit in {"", "ms"} else "s", 1e-3 if unit == "ms" else 1.0)


def _named(path: Path, header: list[str], chosen: str, *, option: str) -> tuple[str, str]:
    """The name and the unit ("" if none) of NAME or NAME:UNIT. A name may itself contain a colon."""
    name, unit = (chosen, "") if chosen in header else chosen.rpartition(":")[::2]
    if header.count(name) != 1:
        raise TraceError(f"{path}: expected {option} to name one of {_shown(header)}, got {chosen}")
    return name, unit


def _seconds(text: str, column: _Column, where: str) -> tuple[float, bool]:
    """The time of a row in s, and whether it is a date: a number, a time of G-NetTrack, or one of ISO 8601.

    A number in a column without a unit counts as s. A date without a time zone counts as UTC.
    """
    if values := row_of_numbers(text):
        if not column.unit and values[0] > MOST_TIME_S:
            raise TraceError(
                f"{where}: expected a time in s of at most {MOST_TIME_S:.0e} in {column.name}, which has no unit, got "
                f"{text[:60]}; if it is in ms, give --time-column {column.name}:ms"
            )
        return values[0] * column.factor, False
    for form in (TIME_FORMAT, None):
        try:
            time = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
        except ValueError:
            continue
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp(), True
    raise TraceError(f"{where}: expected a time as a number, 2019.12.14_10.16.30 or in ISO 8601, got {text[:60]!r}")


def _ascending(path: Path, rows: Sequence[tuple[int, float, float]]) -> tuple[Floats, Floats]:
    """Times from the first one on and rates; rows of one time become their mean. rows: line, time and rate."""
    lines, times_s, rates = (np.array(values) for values in zip(*rows, strict=True))
    falls = np.flatnonzero(np.diff(times_s) < 0)
    if len(falls):
        at = falls[0] + 1
        raise TraceError(
            f"{path}, line {int(lines[at])}: expected a time of at least {times_s[at - 1]:g} s, that of the row "
            f"before it, got {times_s[at]:g} s"
        )
    unique_s, inverse, counts = np.unique(times_s, return_inverse=True, return_counts=True)
    return unique_s - unique_s[0], np.bincount(inverse, weights=rates) / counts


def _pieces(path: Path, name: str, rows: Sequence[tuple[int, float, float]]) -> Iterator[Piece]:
    times_s, rates_mbps = _ascending(path, rows)
    if len(times_s) < 2:
        raise TraceError(f"{path}, line {rows[0][0]}: expected rows of at least two times, got one")
    steps_s = np.diff(times_s)
    step_s = float(np.median(steps_s))
    if step_s > MOST_STEP_S:
        raise TraceError(
            f"{path}: expected rows at most {MOST_STEP_S} s apart, got a median of {step_s:g} s; if the times are in "
            "ms, give --time-column NAME:ms"
        )
    cuts = np.flatnonzero(steps_s > MAX_GAP_STEPS * step_s) + 1
    parts = list(zip(np.split(times_s, cuts), np.split(rates_mbps, cuts), strict=True))
    for number, (part_s, part_mbps) in enumerate(parts, start=1):
        words = [name] * bool(name) + [f"part{number}"] * (len(parts) > 1)
        yield Piece("-".join(words), np.append(part_s, part_s[-1] + step_s), part_mbps)
