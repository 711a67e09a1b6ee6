# SPDX-License-Identifier: MIT
"""Prints tables of text that fit the terminal: a row is one line, and no column is left out.

A table that is wider than the terminal shortens the cells of the columns that allow it, the widest first, and then
halves the gaps. Without a terminal, as in a pipe or a file, nothing is shortened, unless COLUMNS sets a width.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kmod.terminal import echo, visible

_UNLIMITED = 1_000_000
_MARK = "…"


@dataclass(frozen=True)
class Column:
    """A column. heading: may have several lines. align: numbers stand on the right.

    least: how narrow it may become; None for a column whose cells are never shortened. cut: which part of a shortened
    cell is replaced by an ellipsis: the middle of names, whose ends differ, and the end of sentences.
    """

    heading: str
    align: Literal["left", "right"] = "left"
    least: int | None = None
    cut: Literal["middle", "end"] = "middle"


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print a heading and a line for each row."""
    for line in [*([title] if title else []), *table_lines(columns, rows)]:
        echo(line)


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table: its heading, and one for each row."""
    cells = [[visible(cell) for cell in row] for row in rows]
    headings = [column.heading.split("\n") for column in columns]
    wide = [max(map(_width, [*lines, *(row[at] for row in cells)])) for at, lines in enumerate(headings)]
    gap, widths = _fitted(columns, wide, limit=shutil.get_terminal_size((_UNLIMITED, 0)).columns)
    height = max(map(len, headings))
    heads = [[""] * (height - len(lines)) + lines for lines in headings]
    lines = [[head[number] for head in heads] for number in range(height)] if any(map(any, heads)) else []
    return [
        gap.join(
            _padded(shortened(cell, width, cut=column.cut), width, align=column.align)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in [*lines, *cells]
    ]


def shortened(text: str, width: int, *, cut: Literal["middle", "end"] = "end") -> str:
    """Return the text, or as much of it as fits the width, with an ellipsis in place of the rest."""
    if _width(text) <= width:
        return text
    tail = (width - 1) // 2 if cut == "middle" else 0
    head, end = text, text[len(text) - tail :] if tail else ""
    while head and _width(head) + 1 + _width(end) > width:
        head = head[:-1]
    return f"{head}{_MARK}{end}"


def _fitted(columns: Sequence[Column], wide: Sequence[int], *, limit: int) -> tuple[str, list[int]]:
    """Return the gap between two columns, and their widths. The gap is narrow only where the widths do not suffice."""
    for gap in ("  ", " "):
        widths = list(wide)
        for _ in range(sum(widths) + len(gap) * (len(widths) - 1) - limit):
            able = [at for at, column in enumerate(columns) if column.least is not None and widths[at] > column.least]
            if not able:
                break
            widths[max(able, key=lambda at: widths[at])] -= 1
        else:
            break
    return gap, widths


def _padded(text: str, width: int, *, align: Literal["left", "right"]) -> str:
    space = " " * (width - _width(text))
    return space + text if align == "right" else text + space


def _width(text: str) -> int:
    """Return how many places of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
