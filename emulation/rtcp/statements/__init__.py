# SPDX-License-Identifier: MIT
"""What R-TCP 2026 states of itself, each as a predicate over the campaign's figures; a file a subject.

The words are ours, the section is the paper's; `issue` is what was asked of this implementation beyond the paper. A
bound holds up to the 95 % interval (emulation/figures.py). Where the paper gives no figure ("similar", "smaller") a
bound stands beside the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulation.figures import row_of
from emulation.rtcp.campaign import Results
from emulation.rtcp.statements import baseline, detection, fairness, files, lifted, probing, several, video
from emulation.rtcp.statements.common import NAMES, Statement

__all__ = ["NAMES", "STATEMENTS", "judge"]

STATEMENTS: tuple[Statement, ...] = (
    *files.STATEMENTS,
    *detection.STATEMENTS,
    *several.STATEMENTS,
    *lifted.STATEMENTS,
    *probing.STATEMENTS,
    *fairness.STATEMENTS,
    *baseline.STATEMENTS,
    *video.STATEMENTS,
)


def judge(results: Results, statements: Sequence[Statement] = STATEMENTS) -> list[dict[str, Any]]:
    """A row for each statement with a figure in what was run, as JSON data; `agrees` where each is as stated."""
    rows = []
    for statement in statements:
        figures = statement.figures(results) if results.has(statement.kind) else []
        if figures:
            rows.append(row_of(statement, figures))
    return rows
