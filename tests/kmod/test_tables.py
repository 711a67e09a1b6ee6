# SPDX-License-Identifier: MIT
"""Tables that fit the terminal"""

from __future__ import annotations

import pytest

from kmod.tables import Column, shortened, table_lines

COLUMNS = [Column("name", least=8), Column("n\nall", "right"), Column("note", least=6, cut="end")]


def test_a_table_is_shortened_only_as_far_as_the_terminal_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("web-frontend-0123456789", "12", "a sentence that goes on and on")
    monkeypatch.setenv("COLUMNS", "40")
    assert table_lines(COLUMNS, [row]) == [
        "                    n",
        "name              all  note",
        "web-fron…3456789   12  a sentence that …",
    ]
    monkeypatch.setenv("COLUMNS", "5")
    assert table_lines(COLUMNS, [row])[-1] == "web-…789  12 a sen…"
    monkeypatch.delenv("COLUMNS")
    assert table_lines(COLUMNS, [row])[-1] == "web-frontend-0123456789   12  a sentence that goes on and on"


@pytest.mark.parametrize("text", ["", "short", "x" * 300, "界" * 90, "e\u0301" * 100])
def test_a_shortened_text_takes_no_more_places_than_it_may(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert len(shortened(text, 20).encode("utf-16-le")) // 2 <= 40
    (_, line) = table_lines([Column("a", least=4), Column("b")], [(text, "|")])
    assert line.endswith("  |")


def test_no_cell_controls_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_lines([Column("a")], [("\x1b[2J\n",)]) == ["a", "\\x1b[2J\\n"]
