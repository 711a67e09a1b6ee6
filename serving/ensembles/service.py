# SPDX-License-Identifier: MIT
"""Rules for ensembles.

- Only a valid ensemble is stored. Its key is the digest of its content, and it is never changed.
- Publishing the same content again returns the existing row, even if several clients publish at once.
- A document with the key `signature` is refused, because nothing would verify it. Signatures have requests of their own
  (signing.py).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from kmod.ensemble import Deployment, Ensemble, EnsembleError, canonical_json, table_text
from serving.access import audit
from serving.access.grants import Caller
from serving.database import EnsembleRow
from serving.ensembles import repository
from serving.errors import EnsembleInvalidError, EnsembleNotFoundError

# A deployment with the longest header of a table's text. An ensemble that fits with this one fits with any other.
_LONGEST_DEPLOYMENT = Deployment(
    registry="r" * 63, channel="c" * 63, serial=2**63 - 1, hold_back_permille=1000, urgent=True
)


def prepare(data: dict[str, Any]) -> EnsembleRow:
    """Check a document and make its row, all but the time of the publication.

    This takes milliseconds of CPU time, so call it outside a transaction.

    Raises:
        EnsembleInvalidError: structure, a range or the digest is wrong, the document has a key `signature`, or the
            table's text for the kernel is too long.
    """
    if "signature" in data:
        raise EnsembleInvalidError(
            "ensemble: expected no key `signature`, got one; sign the ensemble with `ccatune sign`, and send the "
            "result to /v1/ensembles/{digest}/signatures"
        )
    try:
        ensemble = Ensemble.from_json(data)
        table_text(ensemble, _LONGEST_DEPLOYMENT)
        document_text = canonical_json(ensemble.to_json()).decode("ascii")
    except EnsembleError as error:
        raise EnsembleInvalidError(str(error)) from error
    except RecursionError as error:
        raise EnsembleInvalidError("ensemble: expected flat data, got JSON nested too deeply") from error
    return EnsembleRow(
        digest=ensemble.digest,
        cca=ensemble.cca,
        n_states=ensemble.n_states,
        n_classes=len(ensemble.classes),
        size_bytes=len(document_text),
        document=document_text,
    )


def publish(session: Session, row: EnsembleRow, *, by: Caller, now: datetime) -> tuple[EnsembleRow, bool]:
    """Store a prepared row unless its digest exists. Return the stored row, and whether it is new."""
    row.published_at = now
    stored, is_new = repository.insert_or_find(session, row)
    if is_new:
        audit.record(session, by=by, action="publish", target=f"ensemble {stored.digest}", now=now, cca=stored.cca)
    return stored, is_new


def document(session: Session, digest: str, *, by: Caller) -> str:
    """Return the document with that digest as canonical JSON.

    Raises:
        EnsembleNotFoundError: the registry holds no ensemble with that digest.
        NotPermittedError: the caller may not read ensembles of its algorithm.
    """
    found = repository.cca_and_document(session, digest)
    if found is None:
        raise EnsembleNotFoundError(f"expected the digest of a published ensemble, got {digest}; publish it first")
    cca, text = found
    by.require("read", cca=cca)
    return text
