# SPDX-License-Identifier: MIT
"""/ui/links: the datasets that jobs may name, as runners describe them. /ui/links/NAME: one of them, and its jobs.

The registry has no recordings. Its figures are those that runners send of theirs (serving/datasets). Jobs are deleted
some days after their end, so the ensembles listed here are those of the jobs that are still there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from serving.access.check import Reader
from serving.access.grants import Grant
from serving.context import Context, InContext
from serving.dashboard.pages import PageRoute, page
from serving.database import JobRow, narrowed
from serving.datasets import service as datasets
from serving.datasets.schemas import DatasetContent
from serving.errors import DatasetNotFoundError
from serving.jobs.schemas import JobRead
from serving.names import DatasetName
from serving.observations import repository as observations

router = APIRouter(prefix="/ui", route_class=PageRoute, include_in_schema=False)

_MOST_JOBS = 5000
_SHOWN_JOBS = 100
_SHOWN_AGENTS = 50
_SCALES_MS = (128.0, 1024.0, 8192.0)


@router.get("/links")
async def links(*, request: Request, context: InContext, caller: Reader) -> Response:
    """List the datasets."""
    return page(request, "links.html", title="Links", topics="jobs", **await context.read(_all, context, caller.grant))


def _all(session: Session, context: Context, grant: Grant) -> dict[str, Any]:
    query = select(JobRow.datasets, JobRow.digest).order_by(JobRow.id.desc()).limit(_MOST_JOBS)
    n_jobs, digests = defaultdict[str, int](int), defaultdict[str, set[str]](set)
    for names, digest in session.execute(narrowed(query, (JobRow.cca, grant.ccas))):
        for name in names.split():
            n_jobs[name] += 1
            digests[name] |= set() if digest is None else {digest}
    return {
        "datasets": [
            (one, one.contents[0] if one.contents else None, n_jobs[one.name], len(digests[one.name]))
            for one in datasets.known(session, context.settings)
        ],
        "observed": observations.by_agent(session, limit=_SHOWN_AGENTS, within_agent=grant.agent_id),
        "days": context.settings.job_retention_days,
    }


@router.get("/links/{dataset}")
async def link(*, request: Request, context: InContext, caller: Reader, dataset: DatasetName) -> Response:
    """Show a dataset: its rate over time, its variation, and the jobs that trained on it."""
    shown = await context.read(_one, context, caller.grant, name=dataset)
    return page(request, "link.html", title=dataset, topics="jobs", **shown)


def _one(session: Session, context: Context, grant: Grant, *, name: str) -> dict[str, Any]:
    found = next((one for one in datasets.known(session, context.settings) if one.name == name), None)
    padded = literal(" ") + JobRow.datasets + " "
    query = select(JobRow).where(padded.contains(f" {name} ", autoescape=True))
    query = query.order_by(JobRow.id.desc()).limit(_SHOWN_JOBS)
    jobs = [JobRead.of(row) for row in session.scalars(narrowed(query, (JobRow.cca, grant.ccas)))]
    if found is None and not jobs:
        raise DatasetNotFoundError(f"expected the name of a dataset, got {name}; the page Links lists them")
    newest = found.contents[0] if found and found.contents else None
    return {
        "name": name,
        "contents": found.contents if found else [],
        "newest": newest,
        "jobs": jobs,
        "days": context.settings.job_retention_days,
        "rates": [] if newest is None else _rates(newest),
        "variation": [] if newest is None else _variation(newest),
    }


def _rates(content: DatasetContent) -> list[list[tuple[str, float]]]:
    """Return the mean rates of parts, over the time since the first recording began."""
    part_min = 60 * content.hours / max(1, len(content.rates_mbps))
    return [
        [(f"{place * part_min:.1f} min", round((place + 0.5) * part_min, 3)), (f"{rate:.2f} Mbit/s", rate)]
        for place, rate in enumerate(content.rates_mbps)
    ]


def _variation(content: DatasetContent) -> list[tuple[float, float]]:
    """Return time scale in seconds and deviation, at about 0.1, 1 and 8 s as far as the recordings have them."""
    by_scale = {one.scale_ms: one.deviation for one in content.variation}
    return [(scale_ms / 1000, by_scale[scale_ms]) for scale_ms in _SCALES_MS if scale_ms in by_scale]
