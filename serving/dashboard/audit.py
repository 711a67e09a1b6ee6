# SPDX-License-Identifier: MIT
"""/ui/audit: who changed what, newest first, for administrators."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from serving.access import repository
from serving.access.check import Administrator
from serving.access.schemas import AuditRead
from serving.context import InContext
from serving.dashboard.pages import PageRoute, page
from serving.dashboard.words import short
from serving.errors import InvalidFormError
from serving.http.paging import Cursor, cursor_position, page_of

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_PER_PAGE = 50
_MOST_DETAIL_CHARS = 300
# The page of a target such as `channel gr/champion`, relative to /ui/.
_PLACES = {
    "channel": "channels/{}",
    "ensemble": "ensembles/{}",
    "job": "jobs/{}",
    "agent": "agents/{}",
    "root": "keys",
    "principal": "tokens?principal={}",
    "person": "people",
    "token": "tokens",
}
_DIGEST = re.compile(r"(?:sha256:)?\b[0-9a-f]{64}\b")
_Word = Annotated[str, Query(max_length=256)]


@router.get("/audit")
async def audit(
    *,
    request: Request,
    context: InContext,
    caller: Administrator,
    actor: _Word = "",
    action: _Word = "",
    target: _Word = "",
    since: Annotated[str, Query(max_length=40)] = "",
    cursor: Cursor = None,
) -> Response:
    """List the changes: all, or those by someone, of a kind, of a target, or since a time (UTC)."""
    del caller
    rows = await context.read(
        repository.audit_page, actor=actor or None, action=action or None, target=target or None,
        since=_time_of(since), before_id=cursor_position(cursor), limit=_PER_PAGE + 1,
    )  # fmt: skip
    found = page_of(rows, limit=_PER_PAGE, item=AuditRead.model_validate, position=lambda row: row.id)
    wanted = {"actor": actor, "action": action, "target": target, "since": since}
    return page(
        request, "audit.html", title="Audit", topics="audit", wanted=wanted, cursor=cursor, older=found.next_cursor,
        entries=[
            (one, _with_short_digests(one.target), _place_of(one.target), _details_of(one)) for one in found.items
        ],
        filters=urlencode({name: value for name, value in wanted.items() if value}),
    )  # fmt: skip


def _time_of(text: str) -> datetime | None:
    """Return a time without a zone as UTC. Raises InvalidFormError."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidFormError("since: expected a time such as 2026-11-28T14:00, got another text") from error


def _place_of(target: str) -> str | None:
    kind, _, name = target.partition(" ")
    place = _PLACES.get(kind)
    return None if place is None else place.format(quote(name, safe="/:"))


def _details_of(entry: AuditRead) -> list[tuple[str, str]]:
    """Return the details that say something, each as a short text."""
    said = {name: _text_of(value) for name, value in entry.details.items() if value not in (None, "", [], {})}
    return [
        (name.replace("_", " "), text if len(text) <= _MOST_DETAIL_CHARS else text[:_MOST_DETAIL_CHARS] + "…")
        for name, text in said.items()
    ]


def _text_of(value: object) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    return _with_short_digests(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _with_short_digests(text: str) -> str:
    return _DIGEST.sub(lambda found: short(found[0]), text)
