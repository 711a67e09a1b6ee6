# SPDX-License-Identifier: MIT
"""Statements of R-TCP 2026 on itself, each as a predicate over the campaign's figures; one file for each subject.

The words are ours, and the section is the paper's. `issue` marks a requirement of this project that the paper does not
state. A bound holds up to the 95 % interval (papers/figures.py). Words of the paper without a figure ("similar",
"smaller") have a bound here, written beside them.
"""

from __future__ import annotations

from typing import Any

from experiments.figures import row_of
from experiments.rtcp.campaign import Results
from experiments.rtcp.statements import baseline, detection, fairness, files, lifted, probing, several, video
from experiments.rtcp.statements.common import NAMES

__all__ = ["NAMES", "STATEMENTS", "judge"]

_SUBJECTS = (files, detection, several, lifted, probing, fairness, baseline, video)
_OF_KINDS = tuple((kind, of_kind) for subject in _SUBJECTS for kind, of_kind in subject.STATEMENTS.items())
STATEMENTS = tuple(statement for _, of_kind in _OF_KINDS for statement in of_kind)


def judge(results: Results) -> list[dict[str, Any]]:
    """A row for each statement that has a figure in these results, as JSON data.

    `agrees`: whether every figure agrees.
    """
    judged = [statement for kind, of_kind in _OF_KINDS if results.has(kind) for statement in of_kind]
    found = [(statement, statement.figures(results)) for statement in judged]
    return [row_of(statement, figures) for statement, figures in found if figures]
