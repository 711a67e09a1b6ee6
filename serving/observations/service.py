# SPDX-License-Identifier: MIT
"""Rules for files of observations.

- A file is known by the digest of its content. To upload it again changes nothing, also as another agent.
- Of each agent, and of all together, the oldest files beyond a number of bytes are deleted.
- A token that is limited to an agent sees the files of this agent alone.

Only a file's header is read here, so that an upload costs no more than its bytes. Who trains with it reads it all, and
refuses a damaged one.
"""

from __future__ import annotations

import hashlib

from sqlalchemy.orm import Session

from kmod.observations import ObservationError, begin_of
from serving.access.grants import Caller
from serving.database import ObservationRow
from serving.errors import ObservationNotFoundError, ObservationsInvalidError
from serving.observations import repository
from serving.settings import ServingSettings


def prepare(content: bytes, *, digest: str, agent_id: str) -> ObservationRow:
    """Return the row of a file, without its time. Raises ObservationsInvalidError."""
    found = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if found != digest:
        raise ObservationsInvalidError(f"expected a file with the digest {digest}, got one with {found}")
    try:
        start_s, _ = begin_of(content, name="observations")
    except ObservationError as error:
        raise ObservationsInvalidError(str(error)) from error
    return ObservationRow(
        digest=digest, agent_id=agent_id, start_s=start_s, size_bytes=len(content), content=content
    )  # fmt: skip


def keep(session: Session, row: ObservationRow, *, settings: ServingSettings) -> tuple[ObservationRow, bool]:
    """Store a file, and delete the oldest ones beyond the limits. Return its row, and whether it is new."""
    agent_id = row.agent_id
    kept, is_new = repository.insert_or_find(session, row)
    if is_new:
        repository.delete_oldest(session, agent_id=agent_id, keep_bytes=settings.observation_bytes_per_agent)
        repository.delete_oldest(session, agent_id=None, keep_bytes=settings.observation_bytes)
    return kept, is_new


def content(session: Session, digest: str, *, by: Caller) -> bytes:
    """Return a file. Raises ObservationNotFoundError, NotPermittedError."""
    found = repository.agent_and_content(session, digest)
    if found is None:
        raise ObservationNotFoundError(f"expected a file of observations, got no one with the digest {digest}")
    by.require("read", agent_id=found[0])
    return found[1]
