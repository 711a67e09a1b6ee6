# SPDX-License-Identifier: MIT
"""At least 95 % of the branches of kmod/core are taken by its tests."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.contract.coverage import (
    REQUIRED_PERCENT,
    Branch,
    HeaderCoverage,
    add_counts,
    measure,
    report,
    total,
)


def test_branches_of_the_core_are_covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headers = measure(tmp_path)
    with capsys.disabled():
        click.echo(f"\n{report(headers)}")
    assert total(headers).percent >= REQUIRED_PERCENT, report(headers)
    assert [name for name, header in headers.items() if not header.ran] == []


def gcov_of(*counts: int) -> dict[str, object]:
    """What gcov would say of one line with these branches, in a header of the core."""
    line = {"line_number": 7, "function_name": "f", "branches": [{"count": count} for count in counts]}
    return {"files": [{"file": "/anywhere/core/cca.h", "lines": [line]}, {"file": "other.h", "lines": [line]}]}


def test_a_branch_counts_when_any_unit_takes_it() -> None:
    headers = {"cca.h": HeaderCoverage()}
    add_counts(headers, gcov_of(0, 5, 0))
    assert headers["cca.h"].missed == [Branch(7, "f", 0), Branch(7, "f", 2)]
    assert headers["cca.h"].percent == pytest.approx(100 / 3)
    add_counts(headers, gcov_of(1, 0, 0))
    assert headers["cca.h"].missed == [Branch(7, "f", 2)]


def test_what_is_missed_is_named_and_lowers_the_total() -> None:
    headers = {
        "a.h": HeaderCoverage({Branch(1, "f", 0)}, {Branch(1, "f", 0)}),
        "b.h": HeaderCoverage({Branch(1, "f", 0)}),
    }
    assert total(headers).percent == 50.0
    assert "missed: b.h:1 f (branch 0)" in report(headers)
