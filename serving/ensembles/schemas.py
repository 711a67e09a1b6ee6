# SPDX-License-Identifier: MIT
"""API schemas of ensembles."""

from __future__ import annotations

import json
from datetime import datetime

from pydantic import Field

from serving.ensembles.signing import SignaturesOf
from serving.names import CcaName, DigestText
from serving.roots.schemas import KeyId, SignedEnvelope
from serving.schemas import RowSchema, Schema


class EnsembleSummary(RowSchema):
    """An ensemble without its document, which is at /v1/ensembles/{digest}."""

    digest: DigestText
    cca: CcaName
    n_states: int = Field(description="Network states that it has a parameter set for, delay classes apart.")
    n_classes: int = Field(description="Target-delay classes.")
    size_bytes: int = Field(description="Size of the document.")
    published_at: datetime = Field(description="When it was first published (UTC).")


class PublishedEnsemble(EnsembleSummary):
    """The answer to a request to publish an ensemble."""

    created: bool = Field(description="False where the registry held this very ensemble already.")


class EnsembleSignature(Schema):
    """A publisher's signature of an ensemble."""

    key_id: KeyId
    counts: bool = Field(description="Whether the newest root document names the key in the role publisher.")
    added_at: datetime = Field(description="When it was uploaded (UTC).")
    envelope: SignedEnvelope = Field(description="The envelope with this signature alone.")


class EnsembleSignatures(Schema):
    """The signatures of an ensemble under the newest root document."""

    digest: DigestText
    root_version: int | None = Field(description="Version of the newest root document; null if there is none.")
    threshold: int | None = Field(description="How many publishers must sign; null without a root document.")
    is_signed: bool = Field(description="Whether enough publishers have signed, so that channels may move to it.")
    signatures: list[EnsembleSignature] = Field(description="In the order of the keys' ids.")

    @classmethod
    def of(cls, digest: str, found: SignaturesOf) -> EnsembleSignatures:
        """Build it from the rows of the signatures."""
        counted = found.counted_key_ids
        return cls(
            digest=digest,
            root_version=None if found.root is None else found.root.version,
            threshold=found.threshold,
            is_signed=found.threshold is not None and len(counted) >= found.threshold,
            signatures=[
                EnsembleSignature(
                    key_id=row.key_id,
                    counts=row.key_id in counted,
                    added_at=row.added_at,
                    envelope=SignedEnvelope.model_validate(json.loads(row.envelope)),
                )
                for row in found.rows
            ],
        )
