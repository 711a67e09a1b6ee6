# SPDX-License-Identifier: MIT
"""Reads from an ensemble's document how training saw its states. Anyone may publish any provenance, so all of it is
checked, and a provenance that says nothing usable gives no figures.

    visits          own_epochs of each state: the epochs that an unmodified flow met there (workload `epochs`)
    share in time   training.share_within of each state and class: packets within the target
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError


@dataclass(frozen=True)
class Training:
    """Figures of the training of one ensemble.

    percentiles: of each class, 1 to 99; empty for a table without classes. visits: training epochs of each state with
    such a figure. within: share (0 to 1) of the packets within the target, by state and class.
    """

    n_states: int
    percentiles: tuple[int, ...] = ()
    visits: Mapping[int, int] = field(default_factory=dict)
    within: Mapping[tuple[int, int], float] = field(default_factory=dict)


class _Score(BaseModel):
    share_within: float | None = Field(None, ge=0, le=1)


class _Row(BaseModel):
    state: list[int]
    delay_class: int = Field(alias="class")
    own_epochs: int | None = Field(None, ge=0)
    training: _Score | None = None


_ROWS = TypeAdapter(list[_Row])


def training_of(document: str) -> Training:
    """Return the figures of a published document."""
    data = json.loads(document)
    counts = [axis["count"] for axis in data["axes"]]
    n_states = 1
    for count in counts:
        n_states *= count
    percentiles = tuple(one["percentile"] for one in data["classes"])
    visits: dict[int, int] = {}
    within: dict[tuple[int, int], float] = {}
    for row in _rows(data["provenance"]):
        state = _number(row.state, counts)
        if state is None:
            continue
        if row.own_epochs is not None:
            visits[state] = row.own_epochs
        if row.training is not None and row.training.share_within is not None:
            within[state, row.delay_class] = row.training.share_within
    return Training(n_states, percentiles, visits, within)


def _rows(provenance: Mapping[str, Any]) -> list[_Row]:
    try:
        return _ROWS.validate_python(provenance.get("states"))
    except ValidationError:
        return []


def _number(levels: list[int], counts: list[int]) -> int | None:
    """Return the number of a state from its levels, or None if the axes have no such state."""
    if len(levels) != len(counts) or any(not 0 <= level < n for level, n in zip(levels, counts, strict=True)):
        return None
    number = 0
    for level, count in zip(levels, counts, strict=True):
        number = number * count + level
    return number
