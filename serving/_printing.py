# SPDX-License-Identifier: MIT
"""Prints answers of the registry: as JSON, or as lines and tables without characters that control a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console  # noqa: TID251 (without emulation and its dependencies; cells are visible)
from rich.table import Table

from kmod.terminal import echo, visible

__all__ = ["age_in_words", "print_facts", "print_move", "print_table"]

Json = dict[str, Any]


def print_facts(facts: Json, *, as_json: bool) -> None:
    """Print one fact a line, after its name."""
    if as_json:
        echo(json.dumps(facts))
        return
    width = max(9, *map(len, facts))
    for name, value in facts.items():
        echo(f"{name:<{width}} {_cell(value)}")


def print_move(moved: Json, *, as_json: bool = False) -> None:
    """Print a move of a channel in one line."""
    if as_json:
        echo(json.dumps(moved))
        return
    back = f" (as of serial {moved['restores_serial']})" if moved["restores_serial"] is not None else ""
    serial = f"serial {moved['serial']}{' urgent' if moved['urgent'] else ''}"
    echo(visible(f"{moved['registry']}: {moved['cca']}/{moved['channel']} {serial} {moved['digest']}{back}"))


def print_table(rows: Iterable[Json], columns: Sequence[str], *, as_json: bool) -> None:
    """Print these columns of the rows. JSON has all columns."""
    found = list(rows)
    if as_json:
        echo(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=True)
    for row in found:
        table.add_row(*(_cell(row.get(name)) for name in columns))
    # Lines are not cut to the terminal's width, because a truncated digest could not be copied.
    Console(soft_wrap=True, width=10_000, highlight=False, markup=False).print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else visible(str(value))


def age_in_words(age_s: object) -> str:
    """Return e.g. `12 s`, or `unknown`. An age of 0 or less is that of a clock that was set back."""
    return f"{age_s:.0f} s" if isinstance(age_s, int | float) and age_s > 0 else "unknown"
