# SPDX-License-Identifier: MIT
"""The page of claims is short, readable, and names campaigns that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.prove.__main__ import CAMPAIGNS, chosen_of, load_campaigns

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.search(r"\| \d\d-\d\d \|$", line)]


def test_the_page_has_at_most_40_rows_of_100_columns() -> None:
    assert 0 < len(ROWS) <= 40
    assert max(map(len, ROWS)) <= 100


def test_rows_that_fall_short_come_first() -> None:
    verdicts = [row.split(" | ")[2] for row in ROWS]
    assert verdicts == sorted(verdicts, reverse=True)
    assert set(verdicts) == {"short", "holds"}


def test_every_campaign_named_is_there() -> None:
    chosen_of(re.findall(r"`?\bp ([a-z][\w.-]+)", PAGE.read_text(encoding="utf-8")), load_campaigns(CAMPAIGNS))
