# SPDX-License-Identifier: MIT
"""What all parts of a study file share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StudyPart(BaseModel):
    """Any part of a study: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def versions(self) -> dict[str, str]:
        """The versions of the files outside ccatune and of registered packages that this part depends on, by name."""
        return {}
