# SPDX-License-Identifier: MIT
"""At least 95 % of the branches of kmod/core are taken by its tests."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.contract.coverage import HEADERS, REQUIRED_PERCENT, Branch, Coverage, measure


def test_branches_of_the_core_are_covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure(tmp_path)
    with capsys.disabled():
        click.echo(f"\n{found.report()}")
    assert found.percent >= REQUIRED_PERCENT, found.report()
    assert found.ran == HEADERS


def gcov_of(*counts: int) -> dict[str, object]:
    """What gcov would say of one line with these branches, in a header of the core."""
    line = {"line_number": 7, "function_name": "f", "branches": [{"count": count} for count in counts]}
    return {"files": [{"file": "/anywhere/core/cca.h", "lines": [line]}, {"file": "other.h", "lines": [line]}]}


def test_a_branch_counts_when_any_unit_takes_it_and_one_missed_is_named() -> None:
    found = Coverage()
    for counts in ((0, 5, 0), (1, 0, 0)):
        found.add(gcov_of(*counts))
    assert found.taken == {Branch("cca.h", 7, "f", index): index < 2 for index in range(3)}
    assert found.percent == pytest.approx(200 / 3)
    assert "missed: cca.h:7 f (branch 2)" in found.report()
