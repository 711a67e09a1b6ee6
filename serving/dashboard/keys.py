# SPDX-License-Identifier: MIT
"""/ui/keys: which keys the agents trust, what each has signed, and what expires soon.

Keys are changed on the command line, because private keys stay with their owners (docs/signatures.md).
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.access.grants import Grant
from serving.channels import repository as channels
from serving.channels.offers import Offers
from serving.channels.signing import OfferSigner
from serving.context import Context, InContext
from serving.dashboard.pages import PageRoute, page
from serving.dashboard.words import duration
from serving.database import EnsembleRow, EnsembleSignatureRow, RootRow, narrowed
from serving.roots import service as roots
from serving.signatures import Envelope, Root

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_SOON = timedelta(days=30)
_MOST_CHANNELS = 200
_MOST_SIGNATURES = 100
_MOST_VERSIONS = 20

Finding = tuple[str, str]


@router.get("/keys")
async def keys(*, request: Request, context: InContext, caller: Reader) -> Response:
    """Show the keys of each role, their signatures, and the expiry of documents."""
    signer = context.part(Offers).signer
    shown = await context.read(_shown, context, signer, caller.grant)
    return page(request, "keys.html", title="Keys", topics="audit channels", **shown)


def _shown(session: Session, context: Context, signer: OfferSigner, grant: Grant) -> dict[str, Any]:
    signed = roots.trusted(session)
    root = None if signed is None else signed.root
    counts: Counter[str] = Counter(dict(session.execute(_signatures_by_key()).all()))
    unsigned = [] if root is None else _unsigned(session, root, grant)
    return {
        "root": root,
        "expires_at": None if root is None else datetime.fromtimestamp(root.expires_s, tz=UTC),
        "root_signers": frozenset() if signed is None else signed.envelope.signers(signed.root.keys_of("root")),
        "n_signed": counts,
        "signatures": _newest_signatures(session, root, grant),
        "versions": _versions(session),
        "key_id": signer.key_id,
        "validity_s": context.settings.signature_validity_s,
        "signed_until": _signed_until(context, signer, root),
        "findings": _findings(root, signer, unsigned, now=context.clock()),
        "unsigned": unsigned,
    }


def _signatures_by_key() -> Any:
    return select(EnsembleSignatureRow.key_id, func.count()).group_by(EnsembleSignatureRow.key_id)


def _newest_signatures(session: Session, root: Root | None, grant: Grant) -> list[tuple[Any, ...]]:
    """Return key, ensemble, algorithm and time of the newest signatures, and whether each counts."""
    row = EnsembleSignatureRow
    query = select(row.key_id, row.digest, EnsembleRow.cca, row.added_at).join(
        EnsembleRow, EnsembleRow.digest == row.digest
    )
    query = narrowed(query.order_by(row.id.desc()).limit(_MOST_SIGNATURES), (EnsembleRow.cca, grant.ccas))
    named = frozenset[str]() if root is None else root.roles["publisher"].key_ids
    return [(*found, found[0] in named) for found in session.execute(query)]


def _unsigned(session: Session, root: Root, grant: Grant) -> list[tuple[str, str]]:
    """Return the channels whose ensemble has too few signatures that count, each with the digest."""
    rows = channels.list_page(session, cca=None, after_id=None, limit=_MOST_CHANNELS, within=grant)
    publisher = root.roles["publisher"]
    row = EnsembleSignatureRow
    query = select(row.digest, func.count()).where(row.digest.in_({one.digest for one in rows}))
    query = query.where(row.key_id.in_(publisher.key_ids)).group_by(row.digest)
    counted: dict[str, int] = dict(session.execute(query).all())
    return [
        (f"{one.channel.cca}/{one.channel.name}", one.digest)
        for one in rows
        if counted.get(one.digest, 0) < publisher.threshold
    ]


def _versions(session: Session) -> list[tuple[int, datetime, datetime, int]]:
    """Return version, upload, expiry and number of signatures of the newest root documents."""
    rows = session.scalars(select(RootRow).order_by(RootRow.version.desc()).limit(_MOST_VERSIONS))
    found = []
    for row in rows:
        envelope = Envelope.from_json(json.loads(row.envelope))
        root = Root.from_payload(envelope.payload)
        expires_at = datetime.fromtimestamp(root.expires_s, tz=UTC)
        found.append((row.version, row.added_at, expires_at, len(envelope.signers(root.keys_of("root")))))
    return found


def _signed_until(context: Context, signer: OfferSigner, root: Root | None) -> datetime | None:
    """Return until when the offers of this process are signed, or None if it signs none."""
    if signer.key_id is None or (root is not None and signer.key_id not in root.keys_of("registry")):
        return None
    return datetime.fromtimestamp(signer.issued_s() + context.settings.signature_validity_s, tz=UTC)


def _findings(
    root: Root | None, signer: OfferSigner, unsigned: list[tuple[str, str]], *, now: datetime
) -> list[Finding]:
    """Return what needs attention."""
    if root is None:
        return []
    found: list[Finding] = []
    left = datetime.fromtimestamp(root.expires_s, tz=UTC) - now
    if left <= timedelta(0):
        found.append(("bad", "The root document has expired. Channels cannot move, and agents apply nothing new. "
                             "Publish its next version."))  # fmt: skip
    elif left <= _SOON:
        found.append(("warn", f"The root document expires in {duration(left.total_seconds())}. Publish a next version "
                              "with a later expiry before that."))  # fmt: skip
    if signer.key_id is None:
        found.append(("bad", "This registry has no signing key, so that agents with a root document refuse its "
                             "offers. Its setting signing_key_file names one."))  # fmt: skip
    elif signer.key_id not in root.keys_of("registry"):
        found.append(("bad", "The root document does not name this registry's key, so that its offers are not signed "
                             "and agents refuse them."))  # fmt: skip
    role = root.roles["root"]
    if len(role.key_ids) == role.threshold:
        found.append(("warn", "All root keys must sign a next version. If one is lost, there can be none: add a key."))
    found += [("bad", f"Too few publishers whose signature counts have signed the ensemble of {name}. Agents keep "
                      "their tables until it is signed.") for name, _ in unsigned]  # fmt: skip
    return found
