# SPDX-License-Identifier: MIT
"""What all parts of a study file share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

__all__ = ["Drawn", "StudyPart"]


class StudyPart(BaseModel):
    """Any part of a study: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _ascending(ends: tuple[float, float]) -> tuple[float, float]:
    if not 0 < ends[0] <= ends[1]:
        raise ValueError(f"expected two ends above 0, the lower one first, got {list(ends)}")
    return ends


Drawn = Annotated[tuple[float, float], AfterValidator(_ascending)]
"""The ends of a range from which values are drawn evenly on a logarithmic scale."""
