# SPDX-License-Identifier: MIT
"""What all parts of a study file share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StudyPart(BaseModel):
    """Any part of a study: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
