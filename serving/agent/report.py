# SPDX-License-Identifier: MIT
"""The report on one CCA: what the agent sends to the registry, and what `ccatune-agent status` shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.agent.decide import State

# The registry refuses longer versions. An error is cut, for a cut error says more than a refused report.
MAX_ERROR_CHARACTERS = 1000
MAX_VERSION_CHARACTERS = 256


@dataclass(frozen=True)
class CcaReport:
    """The state of one CCA, as sent to the registry and shown by `status`.

    The fields `offered_*` describe the registry's offer, the fields `effective_*` the table in force.
    If there is no table, its digest is None and its serial is 0. `error` is None when nothing is wrong.
    effective_urgent: whether the table in force has the mark `urgent`. `status` shows it; the registry ignores it.
    run_id: a random word that each run of the agent chooses. By it the registry notices two agents under one id.
    """

    cca: str
    channel: str
    offered_digest: str | None
    offered_serial: int
    effective_digest: str | None
    effective_serial: int
    effective_urgent: bool
    state: State
    error: str | None
    kernel_version: str
    module_version: str | None
    agent_version: str | None
    run_id: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON data."""
        return asdict(self)


@cache
def agent_version() -> str | None:
    """Return the version of the installed package: `ccatune-agent`, else `ccatune`, else None."""
    # importlib.metadata accounts for a quarter of the agent's imports, and applying a table does not need it.
    from importlib import metadata

    for distribution in ("ccatune-agent", "ccatune"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None
