# SPDX-License-Identifier: MIT
"""/ui/channels: all channels. /ui/channels/CCA/NAME: what is in force, how it arrived, and what its flows meet."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.access.grants import Caller
from serving.advice import service as advice
from serving.advice.schemas import AdviceRead
from serving.agents import standing
from serving.channels import repository, service
from serving.channels.offers import Offers
from serving.context import Context, InContext
from serving.dashboard.channel_figures import by_hour, delivery, delivery_in_words, marks_of
from serving.dashboard.overview import channel_lines
from serving.dashboard.pages import PageRoute, page
from serving.database import AuditRow, DeploymentRow, EnsembleRow
from serving.drift.service import DEFAULT_HOURS, ChannelDrift
from serving.ensembles import repository as ensembles
from serving.ensembles import signing
from serving.names import CcaName, ChannelName
from serving.retraining import repository as stored_retrainings
from serving.retraining.schemas import RetrainingRead, policy_of
from serving.rollouts import repository as rollouts
from serving.rollouts.schemas import RolloutRead
from serving.signatures import DeploymentStatement, Envelope

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_MOST_DEPLOYMENTS = 20
_MOST_ENSEMBLES = 100
_DAYS = (1, 3, 7, 30)
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


@router.get("/channels")
async def list_channels(*, request: Request, context: InContext, caller: Reader) -> Response:
    """Show all channels."""

    def lines(session: Session) -> Any:
        counted = standing.counts(session, now=context.clock(), within=caller.grant)
        return channel_lines(session, context, caller.grant, counted)

    found = await context.read(lines)
    return page(request, "channels.html", title="Channels", topics="channels rollouts agents", channels=found)


@router.get("/channels/{cca}/{name}")
async def channel(
    *, request: Request, context: InContext, caller: Reader, cca: CcaName, name: ChannelName, before: Before = None,
    days: Annotated[int, Query(ge=1, le=90)] = 3,
) -> Response:  # fmt: skip
    """Show a channel."""
    found = await context.read(_shown, context, caller, cca=cca, name=name, before=before, days=days)
    return page(
        request, "channel.html", title=f"{cca}/{name}", topics="channels rollouts agents audit", cca=cca, name=name,
        days=days, day_choices=_DAYS, key=secrets.token_urlsafe(16), **found,
    )  # fmt: skip


def _shown(
    session: Session, context: Context, caller: Caller, *, cca: str, name: str, before: int | None, days: int
) -> dict[str, Any]:
    now = context.clock()
    row, document = service.current_with_document(session, cca=cca, name=name)
    history = repository.history_page(session, cca=cca, name=name, before_serial=before, limit=_MOST_DEPLOYMENTS + 1)
    moved = repository.history_page(session, cca=cca, name=name, before_serial=None, limit=_MOST_DEPLOYMENTS)
    arrived = delivery(session, row)
    shown = history[:_MOST_DEPLOYMENTS]
    return {
        "row": row,
        "etag": service.etag_of(row, registry=context.registry),
        "signatures": signatures_of(session, context, caller, row),
        "agents": standing.counts(session, now=now, within=caller.grant).get((cca, name), {}),
        "standings": standing.STANDINGS,
        "drift": context.part(ChannelDrift).details(
            session, cca=cca, name=name, hours=DEFAULT_HOURS, now=now, caller=caller
        ),
        "history": _with_actors(session, shown),
        "older": shown[-1].serial if len(history) > _MOST_DEPLOYMENTS else None,
        "delivery": arrived,
        "delivery_text": delivery_in_words(arrived, row.serial),
        "figures": by_hour(session, caller.grant, cca=cca, name=name, days=days, now=now,
                           classes=json.loads(document)["classes"]),
        "marks": list(marks_of([one for one in moved if one.deployed_at > now - timedelta(days=days)])),
        "ensembles": published(session, cca=cca),
        "advice": AdviceRead.of(advised) if (advised := advice.newest(session, cca=cca, name=name)) else None,
        **_rollouts(session, row),
        **_retrainings(session, row),
    }  # fmt: skip


def _rollouts(session: Session, row: DeploymentRow) -> dict[str, Any]:
    last = rollouts.page(session, cca=row.channel.cca, name=row.channel.name, before_id=None, limit=5)
    return {
        "rollouts": [RolloutRead.of(one) for one in last],
        "open_rollout": next((RolloutRead.of(one) for one in last if one.ended_at is None), None),
    }


def _retrainings(session: Session, row: DeploymentRow) -> dict[str, Any]:
    cca, name = row.channel.cca, row.channel.name
    policy = stored_retrainings.policy(session, cca=cca, name=name)
    last = stored_retrainings.page(session, cca=cca, name=name, before_id=None, limit=5)
    return {
        "policy": None if policy is None else policy_of(policy),
        "policy_row": policy,
        "retrainings": [RetrainingRead.of(one) for one in last],
    }


def published(session: Session, *, cca: str) -> Sequence[EnsembleRow]:
    """Return the newest ensembles of an algorithm, for a choice."""
    return ensembles.page_newest_first(session, cca=cca, before_id=None, limit=_MOST_ENSEMBLES, within_ccas=None)


def _with_actors(session: Session, rows: Sequence[DeploymentRow]) -> list[tuple[DeploymentRow, str | None, str]]:
    """Return each deployment with who made it and by which request, as the audit log says.

    The blocks of a switchback are not in it.
    """
    if not rows:
        return []
    channel = rows[0].channel
    query = select(AuditRow.actor, AuditRow.action, AuditRow.details).where(
        AuditRow.target == f"channel {channel.cca}/{channel.name}",
        AuditRow.action.in_(("move", "roll-back", "start-rollout")),
        AuditRow.at >= rows[-1].deployed_at,
        AuditRow.at <= rows[0].deployed_at,
    )
    said = {json.loads(details).get("serial"): (actor, action) for actor, action, details in session.execute(query)}
    return [(row, *said.get(row.serial, (None, "block of a roll-out"))) for row in rows]


@dataclass(frozen=True)
class SignatureState:
    """What an agent with a pinned root document would see.

    registry_key: the key that signed the deployment, and until when; None without a signature. publishers: keys of
    publishers that signed the ensemble and count. threshold: how many must have. root_version, threshold: None without
    a root document. has_key: whether the registry has a signing key.
    """

    registry_key: str | None
    until: datetime | None
    publishers: list[str]
    threshold: int | None
    root_version: int | None
    has_key: bool

    @property
    def is_applied(self) -> bool:
        """Whether agents that pin the root document apply it."""
        enough = self.threshold is not None and len(self.publishers) >= self.threshold
        return self.registry_key is not None and enough


def signatures_of(session: Session, context: Context, caller: Caller, row: DeploymentRow) -> SignatureState:
    """Return the signatures of a deployment and its ensemble. The row's channel must be loaded."""
    signer = context.part(Offers).signer
    text = signer.signatures(session, row, issued_s=signer.issued_s()).text
    deployment = json.loads(text)["deployment"]
    of_ensemble = signing.of_ensemble(session, row.digest, by=caller)
    key, until = None, None
    if deployment is not None:
        envelope = Envelope.from_json(deployment)
        key = next(iter(envelope.signatures))
        until = datetime.fromtimestamp(DeploymentStatement.from_envelope(envelope).expires_s, tz=UTC)
    root = of_ensemble.root
    return SignatureState(key, until, sorted(of_ensemble.counted_key_ids), of_ensemble.threshold,
                          None if root is None else root.version, signer.key_id is not None)  # fmt: skip
