# SPDX-License-Identifier: MIT
"""Prints answers of the registry: as JSON, which has everything, or as facts and tables in words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kmod import tables
from kmod.tables import Column
from kmod.terminal import COLUMNS, echo
from serving.commands.options import is_json

Json = dict[str, Any]
# Each column of a table, with the text of its cell for a row.
Cells = Mapping[Column, Callable[[Json], str]]

_SHORT_DIGITS = 12
_AGES = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_LEAST_VALUE = 20


def print_answer(answer: Any, in_words: Callable[[], None]) -> None:
    """Print the answer as JSON if the command has --json, else let `in_words` print it."""
    if is_json():
        echo(json.dumps(answer))
    else:
        in_words()


def print_facts(facts: Json, *, shown: Json | None = None, whole: str = "") -> None:
    """Print one fact a line, after its name.

    shown: the facts to print without --json, if others. whole: the fact that is never shortened, as it is shown only
    here.
    """
    print_answer(facts, lambda: _facts_in_words(facts if shown is None else shown, whole=whole))


def print_move(moved: Json) -> None:
    """Print a move of a channel in one line, after one that says whether it made the channel."""
    print_answer(moved, lambda: _move_in_words(moved))


def print_table(rows: Iterable[Json], cells: Cells) -> None:
    """Print a line for each row."""
    found = list(rows)
    texts = ([cell(row) for cell in cells.values()] for row in found)
    print_answer(found, lambda: tables.print_table(list(cells), list(texts)))


def print_filled(text: str) -> None:
    """Print a paragraph."""
    echo(textwrap.fill(text, COLUMNS, break_on_hyphens=False))


def print_reasons(reasons: Iterable[str]) -> None:
    """Print sentences as the items of a list."""
    for reason in reasons:
        echo(textwrap.fill(reason, COLUMNS, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False))


def _facts_in_words(facts: Json, *, whole: str) -> None:
    width = max(8, *map(len, facts))
    names = {name: f"{name.replace('_', ' '):<{width}}" for name in facts}
    tables.print_table(
        [Column(""), Column("", least=_LEAST_VALUE)],
        [(names[name], _text(value)) for name, value in facts.items() if name != whole],
    )
    if whole in facts:
        echo(f"{names[whole]}  {facts[whole]}")


def _move_in_words(moved: Json) -> None:
    if moved.get("created"):
        echo(f"{channel_of(moved)}: a new channel")
    back = f" (as of serial {moved['restores_serial']})" if moved["restores_serial"] is not None else ""
    serial = f"serial {moved['serial']}{' urgent' if moved['urgent'] else ''}"
    echo(f"{moved['registry']}: {channel_of(moved)} {serial} {moved['digest']}{back}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return yes_or_no(value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def channel_of(row: Json) -> str:
    """Return e.g. `gr/champion`."""
    return f"{row.get('cca', '')}/{row.get('channel', '')}"


def short_digest(digest: object) -> str:
    """Return the first digits of a digest, or of the id of a key. Commands accept them in its place."""
    return str(digest or "").removeprefix("sha256:")[:_SHORT_DIGITS]


def share_in_words(permille: object) -> str:
    """Return e.g. `10 %`, or nothing for no share."""
    return f"{permille / 10:g} %" if isinstance(permille, int) and permille else ""


def yes_or_no(value: object) -> str:
    """Return `yes` or `no`."""
    return "yes" if value else "no"


def time_in_words(time: object, *, to: str = "minutes") -> str:
    """Return e.g. `2026-11-27 08:30` for a time of the API, to minutes, seconds or days."""
    return str(time or "")[: {"days": 10, "minutes": 16, "seconds": 19}[to]].replace("T", " ")


def age_in_words(age_s: object) -> str:
    """Return e.g. `12 s` or `3 h`, or `unknown`. An age of 0 or less is that of a clock that was set back."""
    if not isinstance(age_s, int | float) or age_s <= 0:
        return "unknown"
    unit_s, name = next((one for one in _AGES if age_s >= one[0]), _AGES[-1])
    return f"{age_s / unit_s:.0f} {name}"
