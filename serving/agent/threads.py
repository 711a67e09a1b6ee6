# SPDX-License-Identifier: MIT
"""The agent's threads that wait for the network.

A Poller requests one CCA's offer and passes the answer on; the Reporter sends reports. Each has its own thread.
Only the agent's main thread accesses the kernel and the state folder, except for two files: the pollers write `root`
(trust.py), and the Reporter writes `agent-id` where the token names no agent. A slow registry therefore cannot delay a
check of the table.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from serving.agent.errors import RegistryUnavailableError
from serving.agent.state import IN_FORCE, PollResult, State

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from serving.agent.client import RegistryClient
    from serving.agent.log import EventLog
    from serving.agent.settings import AgentSettings
    from serving.agent.state import CcaReport
    from serving.agent.sums import Delta

_FIRST_S = 1.0
# If a long poll that reports no change returns before this fraction of its wait, the registry did not hold the
# request. The Poller then pauses before the next one. It also pauses after each offer. Otherwise it would send requests
# without end to a proxy that drops ETags, and the agent would apply as many tables as a registry offers.
_HELD_FRACTION = 0.5
# A channel without a deployment is requested at most this often, so that its first deployment arrives soon. This is
# longer than the shortest back-off: ten thousand agents make about 1,300 requests a second.
ABSENT_PAUSE_S = 10.0
_JOIN_S = 5.0


class Backoff:
    """Delays after consecutive failures: 1, 2, 4 ... s, at most `maximum_s`.

    Each delay is multiplied by a uniform random factor in [0.5, 1], so that a fleet does not retry all at once.
    """

    def __init__(self, *, maximum_s: float, rng: random.Random) -> None:
        self._maximum_s = maximum_s
        self._rng = rng
        self._failures = 0

    def next_s(self) -> float:
        """Return the delay after one more failure."""
        # The limit of 30 keeps the power from overflowing; 2^30 s exceeds any maximum.
        ceiling_s = min(self._maximum_s, _FIRST_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return ceiling_s * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Restart with the shortest delay."""
        self._failures = 0


class Poller(threading.Thread):
    """Long-polls one channel of one CCA until stopped."""

    def __init__(
        self,
        cca: str,
        *,
        settings: AgentSettings,
        client: RegistryClient,
        deliver: Callable[[PollResult], None],
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name=f"poll-{cca}", daemon=True)
        self._cca = cca
        self._channel = settings.channel
        self._client = client
        self._deliver = deliver
        self._wait_s = settings.wait_s
        self._rng = rng
        self._clock = clock
        self._backoff = Backoff(maximum_s=settings.backoff_max_s, rng=rng)
        self._absent_pause_s = min(ABSENT_PAUSE_S, settings.backoff_max_s)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the current request and the thread, without waiting for it."""
        self._stopping.set()
        self._client.abort()

    def run(self) -> None:
        """Poll until stopped."""
        result = PollResult(State.STARTING)
        with self._client:
            while not self._stopping.is_set():
                # After a failure the request has no wait, so that the answer shows at once that the registry is back.
                has_failed = result.state in {State.OFFLINE, State.TOKEN_REFUSED}
                wait_s = 0.0 if has_failed else self._wait_s * self._rng.uniform(0.8, 1.0)
                began_s, was_absent = self._clock(), result.state is State.NO_CHANNEL
                result = self._client.poll(
                    self._cca, self._channel, etag=result.etag, wait_s=wait_s, is_absent=was_absent
                )
                if self._stopping.is_set():
                    return
                self._deliver(result)
                was_held = self._clock() - began_s >= _HELD_FRACTION * wait_s > 0
                self._stopping.wait(self._pause_s(result, was_held=was_held, was_absent=was_absent))

    def _pause_s(self, result: PollResult, *, was_held: bool, was_absent: bool) -> float:
        """Return the seconds until the next request. A registry that held the request has waited already."""
        pause_s = _FIRST_S
        if result.state is State.NO_CHANNEL:
            # A registry was not allowed to hold the first such request. The next one allows it.
            may_hold_next = not was_absent and self._wait_s > 0
            pause_s = min(_FIRST_S, self._absent_pause_s) if may_hold_next else self._absent_pause_s
            was_held = was_held and was_absent
        elif result.state is not State.IN_SYNC:
            return self._backoff.next_s()
        else:
            was_held = was_held and result.table is None
        self._backoff.reset()
        return 0.0 if was_held else pause_s * self._rng.uniform(0.5, 1.0)


class Reporter(threading.Thread):
    """Sends the newest report of each CCA when it changes, and at least every `report_every_s` as a sign of life.

    A report that a new table is in force is delayed by a random time of up to `report_spread_s`. A move of a channel
    makes such a report on every server of a fleet at once. All other changes are reported immediately.
    The sums of flows travel with the next report, and cause none.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        find_agent_id: Callable[[], str],
        client: RegistryClient,
        log: EventLog,
        rng: random.Random,
        clock: Callable[[], float],
        sums_of: Callable[[str], Delta | None] = lambda _: None,
        acknowledge: Callable[[str, int], None] = lambda _cca, _sequence: None,
    ) -> None:
        """Create the thread.

        sums_of: gives the outstanding delta of a CCA. acknowledge: receives the CCA and the sequence number of a delta
        that need not be sent again. Both are called from this thread.
        """
        super().__init__(name="report", daemon=True)
        self._find_agent_id = find_agent_id
        self._client = client
        self._log = log
        self._sums_of = sums_of
        self._acknowledge = acknowledge
        self._every_s = settings.report_every_s
        self._spread_s = settings.report_spread_s
        self._rng = rng
        self._clock = clock
        self._backoff = Backoff(maximum_s=settings.backoff_max_s, rng=rng)
        self._changed = threading.Condition()
        self._newest: dict[str, CcaReport] = {}
        self._sent: dict[str, CcaReport] = {}
        # When to send each CCA's newest report. After a failure nothing is sent before _next_try_s.
        self._due_s: dict[str, float] = {}
        self._next_try_s = clock()
        self._stopping = False
        self._failing = False

    def submit(self, report: CcaReport) -> None:
        """Send this report when it is due. It replaces a report of the same CCA that was not sent yet."""
        with self._changed:
            if self._newest.get(report.cca) != report:
                self._newest[report.cca] = report
                self._due_s[report.cca] = self._due_of(report)
                self._changed.notify()

    def stop(self) -> None:
        """End the current request and the thread, without waiting for it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._client.abort()

    def _due_of(self, report: CcaReport) -> float:
        """Return when to send a changed report. A delayed one that is replaced keeps its time."""
        now_s = self._clock()
        if not _names_a_new_table(report, before=self._sent.get(report.cca)):
            return now_s
        return min(self._due_s.get(report.cca, math.inf), now_s + self._rng.uniform(0.0, self._spread_s))

    def run(self) -> None:
        """Send reports until stopped."""
        with self._client:
            while (due := self._next_due()) is not None:
                retrying = not self._send(due)
                with self._changed:
                    self._next_try_s = self._clock() + (self._backoff.next_s() if retrying else 0.0)

    def _next_due(self) -> list[CcaReport] | None:
        """Wait until reports are due, and return them, or None when the agent stops."""
        with self._changed:
            while not self._stopping:
                now_s = self._clock()
                due = [report for cca, report in self._newest.items() if self._due_s[cca] <= now_s]
                if due and self._next_try_s <= now_s:
                    return due
                next_s = max(self._next_try_s, min(self._due_s.values(), default=math.inf))
                self._changed.wait(None if next_s == math.inf else next_s - now_s)
            return None

    def _send(self, reports: list[CcaReport]) -> bool:
        for report in reports:
            try:
                self._send_one(report)
            except RegistryUnavailableError as error:
                if not self._failing and not self._stopping:
                    self._log.event("report_failed", cca=report.cca, error=str(error))
                self._failing = True
                return False
            self._sent_one(report)
        self._failing = False
        self._backoff.reset()
        return True

    def _send_one(self, report: CcaReport) -> None:
        """Send a report with the outstanding sums. Raises RegistryUnavailableError."""
        sums = self._sums_of(report.cca)
        refused = self._client.post_report(self._find_agent_id, report, sums=sums)
        if refused is not None:
            self._log.event("sums_refused", cca=report.cca, error=refused)
        if sums is not None:
            self._acknowledge(report.cca, sums["sequence"])

    def _sent_one(self, report: CcaReport) -> None:
        with self._changed:
            self._sent[report.cca] = report
            # A report that was submitted meanwhile has its own time.
            if self._newest[report.cca] == report:
                self._due_s[report.cca] = self._clock() + self._every_s * self._rng.uniform(0.8, 1.0)


def stop_all(threads: Sequence[Poller | Reporter]) -> None:
    """Stop all threads at once, and wait until they have ended: for all of them together at most `_JOIN_S`."""
    for thread in threads:
        thread.stop()
    deadline_s = time.monotonic() + _JOIN_S
    for thread in threads:
        thread.join(timeout=max(0.0, deadline_s - time.monotonic()))


def _names_a_new_table(report: CcaReport, *, before: CcaReport | None) -> bool:
    """Whether the report says only that a table is in force which the last sent report does not name."""
    if report.state not in IN_FORCE or report.error is not None:
        return False
    table = (report.effective_digest, report.effective_serial)
    return before is None or table != (before.effective_digest, before.effective_serial)
