# SPDX-License-Identifier: MIT
"""Parses the text of a trace file.

A line is a whole number of milliseconds from the start, in decimal digits; lines never decrease. LF or CR LF ends a
line; the last one may lack it. A byte order mark of UTF-8 may come first. One pattern matches the whole file, and then
all numbers are converted together (20 million lines per second). A file that does not fit this form is read again line
by line, which names the bad lines.
"""

from __future__ import annotations

import codecs
import re

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from kmod.terminal import counted

MAX_TIME_MS = 2**32 - 1
MAX_DIGITS = 10
# The group is possessive. Therefore the match needs neither backtracking nor memory for each line.
NUMBERS = re.compile(rb"(?:\d{1,10}\n)*+")
TEXT = re.compile(rb"[\t\n\r\x20-\x7e]*")
# A line with several cells.
TABLE = re.compile(rb"^[^\s,;]+[ \t,;]+[^\s,;]", re.MULTILINE)
SHOWN_CHARS = 40
MOST_FAULTS_SHOWN = 5


def parse_trace(data: bytes, *, name: str) -> NDArray[np.uint32]:
    """Milliseconds of each opportunity: uint32 [n_lines], n >= 1, the last above 0.

    Raises TraceError, which names the file, the line and the expected content. Errors of a file: it is empty, is not
    text, or holds only zeros and so has no duration. Errors of a line: it is empty, not a whole number, negative, above
    2^32 - 1, or below the previous line.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        raise TraceError(f"{name}: expected a line per delivery opportunity, got an empty file")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    times_ms = np.fromstring(data if NUMBERS.fullmatch(data) else b"", dtype=np.int64, sep="\n")
    if not len(times_ms) or times_ms.max() > MAX_TIME_MS or (times_ms[1:] < times_ms[:-1]).any():
        times_ms = _parse_lines(data, name)
    if not times_ms[-1]:
        raise TraceError(f"{name}, line {len(times_ms)}: expected a time above 0 at the end, got a file of zeros")
    return times_ms.astype(np.uint32)


def _parse_lines(data: bytes, name: str) -> NDArray[np.int64]:
    """Numbers line by line. Raises TraceError, which names the first lines that are wrong."""
    readable = TEXT.match(data)
    if readable is None or readable.end() < len(data):
        at = 0 if readable is None else readable.end()
        line_number = data.count(b"\n", 0, at) + 1
        got = f"a binary file (byte 0x{data[at]:02x})"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            got = "UTF-16; save it as ASCII or UTF-8"
        raise TraceError(f"{name}, line {line_number}: expected a text of numbers, got {got}")
    values: list[int] = []
    faults: list[str] = []
    n_more = 0
    for number, line in enumerate(data[:-1].split(b"\n"), start=1):
        fault = _fault(line, values[-1] if values else 0)
        if not fault:
            values.append(int(line))
        elif len(faults) < MOST_FAULTS_SHOWN:
            faults.append(f"line {number}: expected {fault}, got {line[:SHOWN_CHARS].decode('ascii')!r}")
        else:
            n_more += 1
    if faults:
        more = f"; and {counted(n_more, 'more bad line')}" if n_more else ""
        hint = "; `ccatune traces import` converts tables of rates" if TABLE.search(data) else ""
        raise TraceError(f"{name}, {'; '.join(faults)}{more}{hint}")
    return np.array(values, dtype=np.int64)


def _fault(line: bytes, previous_ms: int) -> str:
    """What the line should have been; "" if it is right."""
    number = line[1:] if line.startswith(b"-") else line
    if not number.isdigit():
        return "a whole number of milliseconds"
    if number is not line:
        return "a time of at least 0, not a negative one"
    # int() of a million digits takes minutes, so the length is checked first.
    if len(number.lstrip(b"0")) > MAX_DIGITS or int(number) > MAX_TIME_MS:
        return f"at most {MAX_TIME_MS} ms, not too large a number"
    if int(number) < previous_ms:
        return f"a time of at least {previous_ms}, the line before it, not one going backwards"
    return ""
