# SPDX-License-Identifier: MIT
"""Rules for root documents.

- The first one is accepted if enough of its own root keys signed it. Any version number may be the first.
- Each further one follows the newest: the next version, signed by enough root keys of both documents.
- Each names this registry. If this registry signs deployments, each also names its signing key.
- A root document that has expired is accepted, because a newer one may have to follow it. Moves are refused until a
  document that has not expired is the newest.
- Uploading a document again changes nothing.
"""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.grants import Caller
from serving.database import RootRow
from serving.errors import (
    RootConflictError,
    RootNotFoundError,
    SettingsError,
    SignatureInvalidError,
    SigningKeyNotNamedError,
)
from serving.roots import repository
from serving.signatures import Envelope, Root, SignatureError, SignedRoot


def trusted(session: Session) -> SignedRoot | None:
    """Return the newest root document, decoded, or None. It was verified when it was added."""
    row = repository.newest(session)
    return None if row is None else _decoded(row)


def newest(session: Session) -> RootRow:
    """Return the newest root document. Raises RootNotFoundError."""
    row = repository.newest(session)
    if row is None:
        raise RootNotFoundError("expected a root document, the registry has none; `ccatune root publish` uploads one")
    return row


def of_version(session: Session, version: int) -> RootRow:
    """Return the root document of that version. Raises RootNotFoundError."""
    row = repository.of_version(session, version)
    if row is None:
        raise RootNotFoundError(f"expected a version of the root document that was uploaded, got {version}")
    return row


def add(
    session: Session,
    envelope: Envelope,
    *,
    registry: str,
    signing_key_id: str | None,
    now: datetime,
    by: Caller,
) -> tuple[RootRow, bool, int]:
    """Store the next root document. Return its row, whether it is new, and `n_signed_rows`.

    Raises:
        SignatureInvalidError: the document is malformed or names another registry, or too few signatures hold.
        RootConflictError: it is not the next version.
        SigningKeyNotNamedError: it does not name the key with which this registry signs.
    """
    repository.lock_for_addition(session)
    root = _self_signed(envelope)
    if root.registry != registry:
        raise SignatureInvalidError(f"root: expected a document of this registry, {registry}, got {root.registry}")
    earlier = repository.of_version(session, root.version)
    if earlier is not None and _decoded(earlier).envelope.payload == envelope.payload:
        return earlier, False, repository.n_signed_rows(session)
    _require_next(trusted(session), root, envelope)
    if signing_key_id is not None and not _is_named(root, signing_key_id):
        raise SigningKeyNotNamedError(
            f"root: expected version {root.version} to name the key {signing_key_id} in the role registry, because "
            "this registry signs with it; name it beside the new key, or restart the registry without it first"
        )
    row = RootRow(version=root.version, envelope=json.dumps(envelope.to_json()), added_at=now)
    repository.insert(session, row)
    audit.record(session, by=by, action="add-root", target=f"root {root.version}", now=now)
    return row, True, repository.n_signed_rows(session)


def require_named(root: Root, key_id: str) -> None:
    """Raise SettingsError if the root document does not name the key with which a registry starts."""
    if not _is_named(root, key_id):
        raise SettingsError(
            f"signing_key_file: expected a key that version {root.version} of the root document names in the role "
            f"registry, got {key_id}; upload a version that names it first, or start with the key before it"
        )


def _self_signed(envelope: Envelope) -> Root:
    try:
        return SignedRoot.first(envelope).root
    except SignatureError as error:
        raise SignatureInvalidError(str(error)) from error


def _require_next(known: SignedRoot | None, root: Root, envelope: Envelope) -> None:
    """Raise RootConflictError or SignatureInvalidError if the document may not follow the known one."""
    if known is None:
        return
    if root.version != known.root.version + 1:
        raise RootConflictError(
            f"root: expected version {known.root.version + 1}, got another version {root.version}; the newest is "
            f"{known.root.version}, and each version follows the one before"
        )
    try:
        known.next(envelope)
    except SignatureError as error:
        raise SignatureInvalidError(str(error)) from error


def _decoded(row: RootRow) -> SignedRoot:
    envelope = Envelope.from_json(json.loads(row.envelope))
    return SignedRoot(Root.from_payload(envelope.payload), envelope)


def _is_named(root: Root, key_id: str) -> bool:
    return key_id in root.keys_of("registry")
