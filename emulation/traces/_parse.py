# SPDX-License-Identifier: MIT
"""Parses the text of a trace file.

A line is a whole number of milliseconds from the start, in decimal digits; lines never decrease. LF or CR LF ends a
line; the last one may lack it. A byte order mark of UTF-8 may come first. Since numbers never decrease, the lines with
an equal number of digits form a block. Each block is a matrix of characters, which is read column by column (70 million
lines per second). A file that does not fit this form is read again line by line. This names the bad lines, or
accepts unusual forms such as leading zeros.
"""

from __future__ import annotations

import codecs
import re

import numpy as np
from numpy.typing import NDArray

from emulation.errors import TraceError
from kmod.terminal import counted

__all__ = ["MAX_TIME_MS", "parse_trace"]

MAX_TIME_MS = 2**32 - 1
MAX_DIGITS = 10
LINE_FEED = 10
DIGIT_ZERO = 48
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
    times_ms = _parse_blocks(np.frombuffer(data, dtype=np.uint8))
    if times_ms is None:
        times_ms = _parse_lines(data, name)
    if not times_ms[-1]:
        raise TraceError(f"{name}, line {len(times_ms)}: expected a time above 0 at the end, got a file of zeros")
    return times_ms


def _parse_blocks(text: NDArray[np.uint8]) -> NDArray[np.uint32] | None:
    """Numbers in blocks of equal width; None if any character or line is not as expected."""
    blocks: list[NDArray[np.uint32]] = []
    start = 0
    for n_digits in range(1, MAX_DIGITS + 1):
        n_lines = (len(text) - start) // (n_digits + 1)
        lines = text[start : start + n_lines * (n_digits + 1)].reshape(n_lines, n_digits + 1)
        is_longer = lines[:, n_digits] != LINE_FEED
        lines = lines[: int(is_longer.argmax())] if is_longer.any() else lines
        if len(lines):
            values = _block_values(lines[:, :n_digits])
            if values is None:
                return None
            blocks.append(values)
            start += lines.size
    if start != len(text):
        return None
    times_ms = np.concatenate(blocks)
    return None if (times_ms[1:] < times_ms[:-1]).any() else times_ms


def _block_values(digits: NDArray[np.uint8]) -> NDArray[np.uint32] | None:
    """Values of characters [n_lines, n_digits]; None unless all are digits and the numbers fit into 32 bits."""
    n_lines, n_digits = digits.shape
    values: NDArray[np.uint32] = np.zeros(n_lines, dtype=np.uint32)
    for column in range(n_digits):
        digit = digits[:, column] - np.uint8(DIGIT_ZERO)
        # Nine digits always fit; the tenth may not.
        if digit.max() > 9 or (column == MAX_DIGITS - 1 and values.max() > (MAX_TIME_MS - 9) // 10):
            return None
        values = values * np.uint32(10) + digit
    return values


def _parse_lines(data: bytes, name: str) -> NDArray[np.uint32]:
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
    return np.array(values, dtype=np.uint32)


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
