# SPDX-License-Identifier: MIT
"""Lets one search per delay class run over the same epochs, in step.

In step, so that their requests meet in one call: equal points run once, and the
epochs x points of all classes are one batch for the engine's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from training.errors import TrainingError
from training.evaluator import E, Evaluator, Request, Scores
from training.search import Found, Search

__all__ = ["optimise"]


def optimise(
    evaluator: Evaluator[E],
    searches: Sequence[tuple[Search, Scores]],
    *,
    batch: int = 4,
    told: Callable[[int], None] = lambda _count: None,
) -> list[Found]:
    """Run all searches to their end; the best point of each.

    batch: points asked for at once of each search. told: called with the number of
    points that were just told.

    Raises:
        TrainingError: a search ended without a complete score.
    """
    while running := [pair for pair in searches if not pair[0].done]:
        asked = [(search, objective, search.ask(batch)) for search, objective in running]
        requests = [
            Request(proposal.point, objective, partial(search.hopeless, proposal.number))
            for search, objective, proposals in asked for proposal in proposals
        ]  # fmt: skip
        scores = iter(evaluator.evaluate(requests))
        for search, _, proposals in asked:
            for proposal in proposals:
                search.tell(proposal.number, next(scores))
        told(len(requests))
    found = [search.best for search, _ in searches]
    if any(best is None for best in found):
        raise TrainingError("search: expected at least one point to run on all epochs, none did")
    return [best for best in found if best is not None]
