# SPDX-License-Identifier: MIT
"""Makes the report on one CCA, and publishes it: to the log, and to the file that `ccatune-agent status` shows.

The state of a report is determined in this order:

    the last decision is blocked           its state: Rejected, Degraded or Incompatible
    no root document is pinned             the link's state, with Unsigned in the place of InSync
    a signature or the root has expired,   Stale
      and the link is InSync, Offline,
      NoChannel or TokenRefused
    otherwise                              the link's state
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from serving.agent.decide import WITHOUT_OFFER, State
from serving.agent.report import MAX_ERROR_CHARACTERS, MAX_VERSION_CHARACTERS, CcaReport, agent_version
from serving.agent.store import STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from serving.agent.decide import Decision
    from serving.agent.files import CcaFiles
    from serving.agent.kernel import KernelView
    from serving.agent.log import EventLog
    from serving.agent.table import Table
    from serving.agent.trust import Trust

# The state file is confirmed at most this often, to spare the disk.
CONFIRM_EVERY_S = 10.0


@dataclass(frozen=True)
class Link:
    """The state according to the registry's last answer. The agent reports it unless its last decision is blocked."""

    state: State
    error: str | None = None


@dataclass(frozen=True)
class Standing:
    """What a report is made from.

    blocked: the last decision if it is blocked, else None. damaged: why the last known good on disk is unusable, or
    None. The other fields are as in Situation (decide.py).
    """

    kernel: KernelView
    offer: Table | None
    good: Table | None
    link: Link
    blocked: Decision | None
    damaged: str | None


class Publisher:
    """Makes and publishes the reports on one CCA."""

    def __init__(
        self,
        cca: str,
        *,
        channel: str,
        run_id: str | None,
        trust: Trust | None,
        files: CcaFiles,
        log: EventLog,
        confirm_every_s: float,
        clock: Callable[[], float],
    ) -> None:
        """Create the publisher. run_id: see CcaReport. trust: the pinned root document, if there is one."""
        self._cca = cca
        self._channel = channel
        self._run_id = run_id
        self._trust = trust
        self._files = files
        self._log = log
        self._published: CcaReport | None = None
        self._confirm_every_s = confirm_every_s
        self._clock = clock
        self._confirm_at_s = clock() + confirm_every_s

    def report(self, standing: Standing) -> CcaReport:
        """Return the current state as it is sent to the registry."""
        status, offer = standing.kernel.status, standing.offer
        effective = status if status is not None and standing.kernel.has_table else None
        state, error = self._state_and_error(standing)
        return CcaReport(
            cca=self._cca,
            channel=self._channel,
            offered_digest=offer.ensemble.digest if offer is not None else None,
            offered_serial=offer.deployment.serial if offer is not None else 0,
            effective_digest=effective.digest if effective is not None else None,
            effective_serial=effective.serial if effective is not None else 0,
            effective_urgent=effective is not None and effective.urgent,
            state=state,
            error=error[:MAX_ERROR_CHARACTERS] if error is not None else None,
            kernel_version=os.uname().release,
            module_version=status.module[:MAX_VERSION_CHARACTERS] if status is not None else None,
            agent_version=agent_version(),
            run_id=self._run_id,
        )

    def publish(self, standing: Standing) -> None:
        """Log and store the report if it differs from the last published one, or if that one is not stored."""
        report = self.report(standing)
        if report != self._published:
            self._log.event(
                "state",
                cca=report.cca,
                state=report.state,
                offered=report.offered_serial,
                effective=report.effective_serial,
                error=report.error,
            )
        elif not self._files.is_unsaved(STATE):
            return
        self._published = report
        self._files.save(STATE, {**report.to_json(), "confirmed_every_s": self._confirm_every_s})
        self._confirm_at_s = self._clock() + self._confirm_every_s

    def is_outdated(self, standing: Standing) -> bool:
        """Whether the last published report differs from the current one, for example as a signature has expired."""
        return self._published is not None and self.report(standing) != self._published

    def confirm(self) -> None:
        """Renew the time of the state file when that is due and the file holds the last published report."""
        if self._files.is_unsaved(STATE) or self._clock() < self._confirm_at_s:
            return
        self._confirm_at_s = self._clock() + self._confirm_every_s
        self._files.confirm(STATE)

    def _state_and_error(self, standing: Standing) -> tuple[State, str | None]:
        blocked, link = standing.blocked, standing.link
        errors: tuple[str | None, ...]
        if blocked is not None and blocked.blocked is not None:
            state, errors = blocked.blocked, (blocked.why,)
        elif self._trust is None:
            state = State.UNSIGNED if link.state is State.IN_SYNC else link.state
            errors = (link.error or standing.damaged,)
        else:
            why_stale = self._why_stale(self._trust, standing)
            state = State.STALE if why_stale else link.state
            errors = (why_stale, link.error or standing.damaged)
        unsaved = self._files.why_unsaved
        if unsaved is not None:
            unsaved += " (the agent tries again; until then a reboot brings an older table back)"
        return state, "; ".join(filter(None, (*errors, unsaved))) or None

    @staticmethod
    def _why_stale(trust: Trust, standing: Standing) -> str | None:
        if standing.link.state not in {State.IN_SYNC, *WITHOUT_OFFER}:
            return None
        return trust.why_stale(standing.offer if standing.offer is not None else standing.good)
