# SPDX-License-Identifier: MIT
"""Rules for datasets.

- Jobs may name the datasets of the registry's settings, and those of which a runner has said something lately.
- A runner describes each of its datasets at its start, and once a day. What no runner has said for `job_retention_days`
  is forgotten, and so are the oldest entries beyond `_MOST_ROWS`.
- Two runners with different recordings under one name leave two entries, so that people see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.datasets import repository
from serving.datasets.schemas import DatasetContent, DatasetRead, DatasetReport
from serving.errors import DatasetNotFoundError
from serving.settings import ServingSettings

_MOST_ROWS = 1000


def require_known(session: Session, settings: ServingSettings, wanted: Collection[str]) -> None:
    """Raise DatasetNotFoundError unless jobs may name all of these datasets."""
    unknown = set(wanted) - set(settings.datasets)
    if not unknown:
        return
    known = {*settings.datasets, *repository.names(session)}
    if unknown := unknown - known:
        raise DatasetNotFoundError(
            f"datasets: expected some of {', '.join(sorted(known)) or 'none'}, got {', '.join(sorted(unknown)[:3])}; "
            "start a runner that has it (`ccatune jobs run --dataset NAME=FOLDER`)"
        )


def say(session: Session, name: str, said: DatasetReport, *, settings: ServingSettings, now: datetime) -> None:
    """Keep what a runner says of a dataset."""
    facts = said.model_dump_json(exclude={"content", "runner"})
    repository.put(session, name=name, content=said.content, runner=said.runner, facts=facts, now=now)
    before = now - timedelta(days=settings.job_retention_days)
    repository.delete_older(session, before=before, most=_MOST_ROWS)


def known(session: Session, settings: ServingSettings) -> list[DatasetRead]:
    """Return the datasets that jobs may name, in the order of their names."""
    contents = defaultdict[str, list[DatasetContent]](list)
    for row in repository.contents(session):
        contents[row.name].append(DatasetContent.of(row))
    return [
        DatasetRead(name=name, is_configured=name in settings.datasets, contents=contents.get(name, []))
        for name in sorted({*settings.datasets, *contents})
    ]
