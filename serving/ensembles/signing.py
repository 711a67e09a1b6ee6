# SPDX-License-Identifier: MIT
"""Rules for publishers' signatures of ensembles.

- A signature is stored if it is of a publisher's key that the newest root document names. Each key has one signature of
  an ensemble, and it is kept for ever. Its key may lose its role later: the signature then counts no more.
- With a root document, a channel moves only to an ensemble that enough publishers have signed, under the newest one.
- While the newest root document has expired, no channel moves, because agents would not apply the deployment.
- Without a root document nothing can be verified. No signature is stored, and channels move to any ensemble.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.grants import Caller
from serving.database import EnsembleSignatureRow
from serving.ensembles import repository
from serving.errors import (
    EnsembleNotFoundError,
    EnsembleUnsignedError,
    RootExpiredError,
    RootMissingError,
    SignatureInvalidError,
)
from serving.roots import repository as root_rows
from serving.roots import service as roots
from serving.signatures import EnsembleStatement, Envelope, Root, SignatureError, check_ensemble


@dataclass(frozen=True)
class SignaturesOf:
    """All signatures of one ensemble, and the newest root document under which they count. None: there is none."""

    rows: Sequence[EnsembleSignatureRow]
    root: Root | None

    @property
    def counted_key_ids(self) -> frozenset[str]:
        """The keys that the root document names as publishers' keys."""
        named = frozenset[str]() if self.root is None else self.root.roles["publisher"].key_ids
        return named & {row.key_id for row in self.rows}

    @property
    def threshold(self) -> int | None:
        """How many publishers must have signed. None without a root document."""
        return None if self.root is None else self.root.roles["publisher"].threshold


def of_ensemble(session: Session, digest: str, *, by: Caller) -> SignaturesOf:
    """Return the signatures of a published ensemble.

    Raises:
        EnsembleNotFoundError: the ensemble is not published.
        NotPermittedError: the caller may neither read nor publish ensembles of its algorithm.
    """
    cca = _cca_of(session, digest)
    by.require("publish" if "publish" in by.grant.scopes else "read", cca=cca)
    trusted = roots.trusted(session)
    rows = repository.signatures(session, digest=digest)
    return SignaturesOf(rows, None if trusted is None else trusted.root)


def add(
    session: Session, envelope: Envelope, *, digest: str, now: datetime, by: Caller
) -> tuple[int, SignaturesOf, int]:
    """Store the envelope's signatures that hold.

    Return how many of them are new, all signatures of the ensemble, and `n_signed_rows`.

    Raises:
        EnsembleNotFoundError: the ensemble is not published.
        NotPermittedError: the caller may not publish ensembles of its algorithm.
        RootMissingError: the registry has no root document.
        SignatureInvalidError: the envelope is malformed or about another ensemble, or none of its signatures is a
            valid one of a publisher.
    """
    cca = _cca_of(session, digest)
    by.require("publish", cca=cca)
    trusted = roots.trusted(session)
    if trusted is None:
        raise RootMissingError(
            "expected a root document that names the publishers, the registry has none; upload one first "
            "(`ccatune root publish`)"
        )
    statement = _statement(envelope)
    if statement != EnsembleStatement(cca, digest):
        raise SignatureInvalidError(
            f"ensemble's signature: expected one of {cca} {digest}, got one of {statement.cca} {statement.digest}"
        )
    signers = envelope.signers(trusted.root.keys_of("publisher"))
    if not signers:
        raise SignatureInvalidError(
            f"ensemble's signature: expected one of a key that version {trusted.root.version} of the root document "
            f"names in the role publisher, got {len(envelope.signatures)} of which none is valid; sign with such a key"
        )
    rows = [
        EnsembleSignatureRow(
            digest=digest, key_id=key_id, envelope=json.dumps(_with_one(envelope, key_id).to_json()), added_at=now
        )
        for key_id in sorted(signers)
    ]
    new = [row.key_id for row in rows if repository.insert_signature(session, row)]
    if new:
        audit.record(session, by=by, action="sign", target=f"ensemble {digest}", now=now, cca=cca, key_ids=new)
    return len(new), of_ensemble(session, digest, by=by), root_rows.n_signed_rows(session)


def require_signed(session: Session, *, cca: str, digest: str, now: datetime) -> None:
    """Check that a channel may move to this ensemble now. Without a root document it may.

    Raises:
        RootExpiredError: the newest root document has expired.
        EnsembleUnsignedError: too few publishers have signed the ensemble.
    """
    root_rows.lock_for_use(session)
    trusted = roots.trusted(session)
    if trusted is None:
        return
    root = trusted.root
    if root.is_expired(now_s=now.timestamp()):
        raise RootExpiredError(
            f"expected a root document that is valid at {now:%Y-%m-%dT%H:%M:%SZ}, version {root.version} has expired, "
            "so agents would not apply the deployment; upload its next version"
        )
    try:
        check_ensemble(root, envelopes_under(session, root, digest=digest), cca=cca, digest=digest)
    except SignatureError as error:
        raise EnsembleUnsignedError(f"{error}; sign it with `ccatune sign` and publish the signature") from error


def envelopes_under(session: Session, root: Root, *, digest: str) -> list[Envelope]:
    """Return the ensemble's signatures by keys that this root document names, in the order of the keys' ids."""
    named = root.roles["publisher"].key_ids
    rows = repository.signatures(session, digest=digest)
    return [Envelope.from_json(json.loads(row.envelope)) for row in rows if row.key_id in named]


def _cca_of(session: Session, digest: str) -> str:
    ensemble = repository.find(session, digest)
    if ensemble is None:
        raise EnsembleNotFoundError(f"expected the digest of a published ensemble, got {digest}; publish it first")
    return ensemble.cca


def _statement(envelope: Envelope) -> EnsembleStatement:
    try:
        return EnsembleStatement.from_envelope(envelope)
    except SignatureError as error:
        raise SignatureInvalidError(str(error)) from error


def _with_one(envelope: Envelope, key_id: str) -> Envelope:
    return Envelope(envelope.payload_type, envelope.payload, {key_id: envelope.signatures[key_id]})
