# SPDX-License-Identifier: MIT
"""API schemas of ensembles."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from serving.database import EnsembleRow
from serving.names import CcaName, DigestText

__all__ = ["EnsembleSummary", "PublishedEnsemble"]


class EnsembleSummary(BaseModel):
    """An ensemble without its document, which is at /v1/ensembles/{digest}."""

    model_config = ConfigDict(frozen=True)

    digest: DigestText
    cca: CcaName
    n_states: int = Field(description="Network states that it has a parameter set for, delay classes apart.")
    n_classes: int = Field(description="Target-delay classes.")
    size_bytes: int = Field(description="Size of the document.")
    published_at: datetime = Field(description="When it was first published (UTC).")

    @classmethod
    def of(cls, row: EnsembleRow) -> EnsembleSummary:
        """Build the summary from its row."""
        return cls(
            digest=row.digest,
            cca=row.cca,
            n_states=row.n_states,
            n_classes=row.n_classes,
            size_bytes=row.size_bytes,
            published_at=row.published_at,
        )


class PublishedEnsemble(EnsembleSummary):
    """The answer to a request to publish an ensemble."""

    created: bool = Field(description="False where the registry held this very ensemble already.")
