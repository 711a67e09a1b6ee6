# SPDX-License-Identifier: MIT
"""What R-TCP 2026 states of itself, each as a predicate over the campaign's figures; a file a subject.

The words are ours, the section is the paper's; `issue` is what was asked of this implementation beyond the paper. A
bound holds up to the 95 % interval (papers/figures.py). Where the paper gives no figure ("similar", "smaller") a
bound stands beside the words.
"""

from __future__ import annotations

from typing import Any

from training.papers.figures import row_of
from training.papers.rtcp.campaign import Results
from training.papers.rtcp.statements import baseline, detection, fairness, files, lifted, probing, several, video
from training.papers.rtcp.statements.common import NAMES

__all__ = ["NAMES", "STATEMENTS", "judge"]

_SUBJECTS = (files, detection, several, lifted, probing, fairness, baseline, video)
_OF_KINDS = tuple((kind, of_kind) for subject in _SUBJECTS for kind, of_kind in subject.STATEMENTS.items())
STATEMENTS = tuple(statement for _, of_kind in _OF_KINDS for statement in of_kind)


def judge(results: Results) -> list[dict[str, Any]]:
    """A row for each statement with a figure in what was run, as JSON data; `agrees` where each is as stated."""
    judged = [statement for kind, of_kind in _OF_KINDS if results.has(kind) for statement in of_kind]
    found = [(statement, statement.figures(results)) for statement in judged]
    return [row_of(statement, figures) for statement, figures in found if figures]
