# SPDX-License-Identifier: MIT
"""The page of claims is short, readable, and names campaigns that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.prove.__main__ import CAMPAIGNS, chosen_of, load_campaigns
from tests.prove.claims import claims, faults_of, rows_of

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


TABLE = """
| GR's study takes 8 min | 2.2 min | holds | train gr --within 8 (z) | 11-28 |

| z | with `--base bbr` |
"""
RECORD = {
    "claim": "GR's study takes 8 min", "stated": "train gr --within 8 with `--base bbr`", "date": "11-28",
    "ran": "ccatune train gr --within 8 --base bbr --threads 2", "status": 0, "seconds": 132, "output": "",
}  # fmt: skip


def test_no_row_contradicts_what_its_command_showed(tmp_path: Path) -> None:
    done = CliRunner().invoke(claims, [])
    assert done.exit_code == 0, done.output
    page, shown = tmp_path / "claims.md", tmp_path / "shown.jsonl"
    page.write_text(TABLE.replace("--within 8", "--within 12"), encoding="utf-8")
    shown.write_text(json.dumps(RECORD), encoding="utf-8")
    done = CliRunner().invoke(claims, ["--page", str(page), "--shown", str(shown)])
    assert done.exit_code == 1
    assert "FAILS: GR's study takes 8 min: the page has stated 'train gr --within 12" in done.output


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"ran": "ccatune train gr --within 8 --study configs/studies/gr-levels.yaml"}, "lacks --study gr-levels.yaml"),
        ({"ran": "ccatune train gr --within 14"}, "lacks 14"),
        ({"seconds": 840}, "did not print 2.2"),
        ({"status": 1}, "its command ended with 1"),
        ({"date": "11-22"}, "the page has date '11-28', the record '11-22'"),
    ],
)
def test_a_row_is_proved_by_its_own_command_alone(changes: dict[str, object], fault: str | None) -> None:
    (row,) = rows_of(TABLE)
    faults = faults_of(row, {**RECORD, **changes})
    assert [fault in found for found in faults] == [True] if fault else faults == []
