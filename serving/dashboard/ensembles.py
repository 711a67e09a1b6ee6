# SPDX-License-Identifier: MIT
"""/ui/ensembles: all ensembles. /ui/ensembles/DIGEST: its map by state, its provenance, and where it is in force."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.access.grants import Caller, Grant
from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.endpoints import wake_later
from serving.context import Context, InContext
from serving.dashboard import provenance, state_map
from serving.dashboard.channel_forms import checked_change, move_of
from serving.dashboard.pages import PageRoute, form_of, page, see_other
from serving.dashboard.state_map import Document
from serving.database import (
    AuditRow,
    ChannelRow,
    DeploymentRow,
    EnsembleRow,
    EnsembleSignatureRow,
    JobRow,
    RolloutRow,
    narrowed,
)
from serving.drift.service import DEFAULT_HOURS, ChannelDrift
from serving.ensembles import repository, service, signing
from serving.errors import InvalidFormError
from serving.http.etags import quoted
from serving.names import CcaName, ChannelName, DigestText, in_words

router = APIRouter(prefix="/ui/ensembles", route_class=PageRoute, include_in_schema=False)

_PAGE = 50
_MOST_CHANNELS = 200
_NAME: TypeAdapter[str] = TypeAdapter(ChannelName)
_Word = Annotated[str, Query(max_length=80)]


@router.get("")
async def list_ensembles(
    *, request: Request, context: InContext, caller: Reader, cca: CcaName | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
) -> Response:  # fmt: skip
    """Show the published ensembles, newest first."""
    found = await context.read(_listed, caller, cca=cca, before=before)
    return page(request, "ensembles.html", title="Ensembles", topics="channels rollouts audit", cca=cca, **found)


def _listed(session: Session, caller: Caller, *, cca: str | None, before: int | None) -> dict[str, Any]:
    grant = caller.grant
    rows = repository.page_newest_first(session, cca=cca, before_id=before, limit=_PAGE + 1, within_ccas=grant.ccas)
    shown = rows[:_PAGE]
    digests = [row.digest for row in shown]
    signed: dict[str, list[str]] = {}
    query = select(EnsembleSignatureRow.digest, EnsembleSignatureRow.key_id)
    for digest, key_id in session.execute(query.where(EnsembleSignatureRow.digest.in_(digests))):
        signed.setdefault(digest, []).append(key_id)
    ccas = narrowed(select(EnsembleRow.cca).distinct().order_by(EnsembleRow.cca), (EnsembleRow.cca, grant.ccas))
    return {
        "ensembles": shown, "signed": signed, "places": places(session, digests, grant),
        "publishers": _publishers(session, digests), "older": shown[-1].id if len(rows) > _PAGE else None,
        "ccas": session.scalars(ccas).all(),
    }  # fmt: skip


def places(session: Session, digests: Collection[str], grant: Grant) -> dict[str, list[tuple[str, str, str]]]:
    """Return where ensembles are in force: algorithm, channel, and how, by digest."""
    current = select(DeploymentRow.digest, ChannelRow.cca, ChannelRow.name, DeploymentRow.serial).join(
        DeploymentRow.channel
    )
    current = current.where(DeploymentRow.serial == ChannelRow.current_serial, DeploymentRow.digest.in_(digests))
    staged = select(RolloutRow.digest, ChannelRow.cca, ChannelRow.name, RolloutRow.id).join(RolloutRow.channel)
    staged = staged.where(RolloutRow.ended_at.is_(None), RolloutRow.digest.in_(digests))
    found: dict[str, list[tuple[str, str, str]]] = {}
    for query, how in ((current, "serial {}"), (staged, "candidate of roll-out {}")):
        granted = narrowed(query, (ChannelRow.cca, grant.ccas), (ChannelRow.name, grant.channels))
        for digest, cca, name, number in session.execute(granted.order_by(ChannelRow.cca, ChannelRow.name)):
            found.setdefault(digest, []).append((cca, name, how.format(number)))
    return found


def _publishers(session: Session, digests: Sequence[str]) -> dict[str, str]:
    query = select(AuditRow.target, AuditRow.actor).where(
        AuditRow.action == "publish", AuditRow.target.in_([f"ensemble {digest}" for digest in digests])
    )
    return {target.removeprefix("ensemble "): actor for target, actor in session.execute(query)}


@router.get("/{digest}")
async def ensemble(
    *, request: Request, context: InContext, caller: Reader, digest: DigestText, against: _Word = "",
    parameter: _Word = "", delay_class: Annotated[int, Query(alias="class", ge=0, le=7)] = 0, on: _Word = "",
) -> Response:  # fmt: skip
    """Show an ensemble."""
    found = await context.read(_shown, context, caller, digest=digest, against=against, parameter=parameter,
                               delay_class=delay_class, on=on)  # fmt: skip
    return page(request, "ensemble.html", title=f"Ensemble {digest[7:19]}", topics="channels", digest=digest,
                against=against, key=secrets.token_urlsafe(16), unit_of=state_map.unit_of, **found)  # fmt: skip


def _shown(
    session: Session, context: Context, caller: Caller, *, digest: str, against: str, parameter: str, delay_class: int,
    on: str,
) -> dict[str, Any]:  # fmt: skip
    document = Document(service.document(session, digest, by=caller))
    row = repository.find(session, digest)
    assert row is not None  # noqa: S101 - it has a document
    other = Document(service.document(session, against, by=caller)) if against else None
    delay_class = min(delay_class, document.n_classes - 1)
    parameter = state_map.wanted_column(document, parameter)
    same = other is not None and document.has_states_of(other)
    in_force = places(session, [digest], caller.grant).get(digest, [])
    newest = repository.page_newest_first(session, cca=row.cca, before_id=None, limit=_MOST_CHANNELS,
                                          within_ccas=caller.grant.ccas)  # fmt: skip
    return {
        "row": row, "document": document, "parameter": parameter, "delay_class": delay_class,
        "grid": state_map.parameter_map(document, parameter, delay_class=delay_class, other=other if same else None),
        "structure": [] if other is None else state_map.states_differ(document, other),
        "changes": state_map.changes(document, other) if other is not None and same else [],
        "others": [one for one in newest if one.digest != digest],
        "in_force": in_force,
        "publisher": _publishers(session, [digest]).get(digest),
        "job": session.scalar(select(JobRow.id).where(JobRow.digest == digest).order_by(JobRow.id).limit(1)),
        "signatures": signing.of_ensemble(session, digest, by=caller),
        "said": provenance.in_words(document.provenance),
        "provenance_text": provenance.as_text(document.provenance),
        "channels": channels.list_page(session, cca=row.cca, after_id=None, limit=_MOST_CHANNELS, within=caller.grant),
        **_live(session, context, caller, document, in_force, on=on, delay_class=delay_class),
    }  # fmt: skip


def _live(
    session: Session, context: Context, caller: Caller, document: Document, in_force: Sequence[tuple[str, str, str]], *,
    on: str, delay_class: int,
) -> dict[str, Any]:  # fmt: skip
    """Return how flows visit the states of a channel where it is in force, and the delay that they meet there."""
    serving = [(cca, name) for cca, name, how in in_force if how.startswith("serial")]
    if not serving:
        return {"on": None, "serving": [], "drift": None, "visits": None, "delays": None}
    chosen = next(((cca, name) for cca, name in serving if name == on), serving[0])
    drift = context.part(ChannelDrift).details(
        session, cca=chosen[0], name=chosen[1], hours=DEFAULT_HOURS, now=context.clock(), caller=caller
    )
    return {
        "on": chosen[1], "serving": [name for _, name in serving], "drift": drift,
        "visits": state_map.visit_map(document, drift),
        "delays": state_map.delay_map(document, drift, delay_class=delay_class),
    }  # fmt: skip


@router.post("/{digest}/move")
async def move(
    *, request: Request, context: InContext, caller: Reader, background: BackgroundTasks, digest: DigestText
) -> Response:
    """Move a channel to the ensemble, or make a channel with it."""
    fields = form_of(request)
    # The choice names the channel and the serial that the page showed, so that no move is overwritten unseen.
    chosen, _, serial = fields.pop("channel", "").partition(" ")
    made = fields.pop("new_channel", "")
    if not made and not serial.isdecimal():
        raise InvalidFormError("expected a channel of the page's list, or the name of a new one; load the page anew")
    try:
        name = _NAME.validate_python(made or chosen)
    except ValidationError as error:
        raise InvalidFormError(f"channel: {in_words(error.errors()[0])}") from error
    found = await context.read(repository.find, digest)
    cca = found.cca if found is not None else ""
    caller.require("move", cca=cca, channel=name)
    wanted = move_of({**fields, "digest": digest})
    fields["if_match"] = quoted("0" if made else serial)
    change = checked_change(context, caller, (cca, name), fields, kind="move", wanted=wanted)
    row, _ = await context.write(moves.move, change, wanted)
    wake_later(context, background, (cca, name), revision=row.channel.revision)
    return see_other(request, f"channels/{cca}/{name}")
