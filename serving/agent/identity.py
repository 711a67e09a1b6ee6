# SPDX-License-Identifier: MIT
"""The id that an agent reports under: the given one, or one chosen at random and kept in the state folder.

The chosen id is the host's name, for those who read it, and 16 random hexadecimal digits, because two servers may have
the same name. It stays the same when the host is renamed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from serving.agent.errors import SettingsError, StateDirError
from serving.agent.store import AGENT_ID, NO_CCA

if TYPE_CHECKING:
    from serving.agent.log import EventLog
    from serving.agent.store import Store

_AGENT_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_MAX_HOST_CHARACTERS = 80
_RANDOM_BYTES = 8


def require_agent_id(agent_id: str) -> None:
    """Raise SettingsError unless the registry accepts this id."""
    if not _AGENT_ID.fullmatch(agent_id) or agent_id in {".", ".."}:
        raise SettingsError(
            f"agent_id: expected 1 to 128 of A-Z a-z 0-9 . _ : -, not . or .. alone, got {agent_id!r:.200}"
        )


def find_agent_id(given: str, *, store: Store, log: EventLog) -> str:
    """Return the given id, or else the one of the state folder. It is chosen now if there is none.

    An id that cannot be saved is used until the agent ends. The caller must hold the store's lock.
    """
    if given:
        return given
    try:
        kept = store.load(NO_CCA, AGENT_ID)
        if isinstance(kept, str):
            require_agent_id(kept)
            return kept
    except (SettingsError, StateDirError) as error:
        log.event("damaged", file=AGENT_ID, error=str(error))
    chosen = _choose(os.uname().nodename)
    try:
        store.save(NO_CCA, AGENT_ID, chosen)
    except StateDirError as error:
        log.event("not_kept", error=str(error))
    log.event("agent_id", chosen=chosen)
    return chosen


def _choose(host: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9._:-]", "-", host)[:_MAX_HOST_CHARACTERS] or "unnamed"
    return f"{readable}-{os.urandom(_RANDOM_BYTES).hex()}"
