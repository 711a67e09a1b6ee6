# SPDX-License-Identifier: MIT
"""The agent's threads that wait for the network.

A Poller requests one CCA's offer and passes the answer on; the Reporter sends reports. Each has its own thread.
Only the agent's main thread accesses the kernel and the state folder, except for two files: the pollers write `root`
(trust.py), and the Reporter writes `agent-id` where the token names no agent. A slow registry therefore cannot delay a
check of the table.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from serving.agent.backoff import FIRST_S, Backoff
from serving.agent.decide import IN_FORCE, State
from serving.agent.errors import (
    ChannelAbsentError,
    NotPermittedError,
    OfferExpiredError,
    OfferRefusedError,
    RegistryUnavailableError,
)
from serving.agent.log import EventLog
from serving.agent.registry import RegistryClient
from serving.agent.report import CcaReport
from serving.agent.table import Table

# If a long poll that reports no change returns before this fraction of its wait, the registry did not hold the
# request. The Poller then pauses before the next one. It also pauses after each offer. Otherwise it would send requests
# without end to a proxy that drops ETags, and the agent would apply as many tables as a registry offers.
_HELD_FRACTION = 0.5
# A channel without a deployment is requested at most this often, so that its first deployment arrives soon. This is
# longer than the shortest back-off: ten thousand agents make about 1,300 requests a second.
ABSENT_PAUSE_S = 10.0
_JOIN_S = 5.0


HeardKind = Literal["offered", "unchanged", "refused", "expired", "absent", "not_permitted", "unavailable"]

# The state that the agent reports after such an answer.
STATE_OF: dict[HeardKind, State] = {
    "refused": State.REJECTED,
    "expired": State.STALE,
    "absent": State.NO_CHANNEL,
    "not_permitted": State.TOKEN_REFUSED,
    "unavailable": State.OFFLINE,
}


@dataclass(frozen=True)
class Heard:
    """The result of one request for an offer.

    kind: `offered` with a table, `unchanged`, `refused` (the offer failed a check), `expired` (its signature or the
    root document has expired), `absent` (there is no such channel), `not_permitted` (the token is refused) or
    `unavailable` (no usable answer). `error` is the message of the last five.
    """

    cca: str
    kind: HeardKind
    table: Table | None = None
    error: str = ""

    @property
    def is_absent(self) -> bool:
        """Whether the registry answers, but has no such channel."""
        return self.kind == "absent"


def ask(client: RegistryClient, cca: str, channel: str) -> tuple[Heard, str | None]:
    """Request the offer once, without a long poll. Return the result and the ETag for the next request."""
    return _ask(client, cca, channel, etag=None, wait_s=0)


def _ask(
    client: RegistryClient, cca: str, channel: str, *, etag: str | None, wait_s: float, is_absent: bool = False
) -> tuple[Heard, str | None]:
    try:
        offer = client.get_offer(cca, channel, etag=etag, wait_s=wait_s, is_absent=is_absent)
    except OfferRefusedError as error:
        # The ETag is dropped, so that the next request fetches the offer again: it may have been damaged in transit.
        return Heard(cca, "expired" if isinstance(error, OfferExpiredError) else "refused", error=str(error)), None
    except ChannelAbsentError as error:
        return Heard(cca, "absent", error=str(error)), None
    except RegistryUnavailableError as error:
        kind: HeardKind = "not_permitted" if isinstance(error, NotPermittedError) else "unavailable"
        return Heard(cca, kind, error=str(error)), etag
    if offer is None:
        return Heard(cca, "unchanged"), etag
    return Heard(cca, "offered", table=offer.table), offer.etag


class Poller:
    """Long-polls one channel of one CCA until stopped."""

    def __init__(
        self,
        cca: str,
        *,
        channel: str,
        client: RegistryClient,
        tell: Callable[[Heard], None],
        wait_s: float,
        backoff_max_s: float,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._cca = cca
        self._channel = channel
        self._client = client
        self._tell = tell
        self._wait_s = wait_s
        self._rng = rng
        self._clock = clock
        self._backoff = Backoff(maximum_s=backoff_max_s, rng=rng)
        self._absent_pause_s = min(ABSENT_PAUSE_S, backoff_max_s)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"poll-{cca}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the current request and the thread."""
        self._stopping.set()
        self._client.abort()
        self._thread.join(timeout=_JOIN_S)

    def _main(self) -> None:
        with self._client:
            self._run()

    def _run(self) -> None:
        etag: str | None = None
        answers, is_absent = True, False
        while not self._stopping.is_set():
            # After a failure the request has no wait, so that the answer shows immediately that the registry is back.
            wait_s = self._wait_s * self._rng.uniform(0.8, 1.0) if answers else 0.0
            began_s = self._clock()
            was_absent = is_absent
            heard, etag = _ask(self._client, self._cca, self._channel, etag=etag, wait_s=wait_s, is_absent=is_absent)
            if self._stopping.is_set():
                return
            answers, is_absent = heard.kind not in {"unavailable", "not_permitted"}, heard.is_absent
            self._tell(heard)
            took_s = self._clock() - began_s
            self._stopping.wait(self._pause_s(heard, took_s=took_s, wait_s=wait_s, was_absent=was_absent))

    def _pause_s(self, heard: Heard, *, took_s: float, wait_s: float, was_absent: bool) -> float:
        if heard.is_absent:
            self._backoff.reset()
            if not was_absent and self._wait_s > 0:
                # The registry was not allowed to hold this request. The next one allows it.
                return min(FIRST_S, self._absent_pause_s) * self._rng.uniform(0.5, 1.0)
            # A registry that held the request has waited already.
            was_held = wait_s > 0 and took_s >= _HELD_FRACTION * wait_s
            return 0.0 if was_held else self._absent_pause_s * self._rng.uniform(0.5, 1.0)
        if heard.kind in STATE_OF:
            return self._backoff.next_s()
        self._backoff.reset()
        was_held = heard.kind == "unchanged" and took_s >= _HELD_FRACTION * wait_s
        return 0.0 if was_held else FIRST_S * self._rng.uniform(0.5, 1.0)


class Reporter:
    """Sends the newest report of each CCA when it changes, and at least every `every_s` as a sign of life.

    A report that a new table is in force is delayed by a random time of up to `spread_s`. A move of a channel makes
    such a report on every server of a fleet at once. All other changes are reported immediately.
    """

    def __init__(
        self,
        *,
        find_agent_id: Callable[[], str],
        client: RegistryClient,
        log: EventLog,
        every_s: float,
        spread_s: float,
        backoff_max_s: float,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._find_agent_id = find_agent_id
        self._client = client
        self._log = log
        self._every_s = every_s
        self._spread_s = spread_s
        self._rng = rng
        self._clock = clock
        self._backoff = Backoff(maximum_s=backoff_max_s, rng=rng)
        self._changed = threading.Condition()
        self._newest: dict[str, CcaReport] = {}
        self._sent: dict[str, CcaReport] = {}
        # When to send each CCA's newest report. After a failure nothing is sent before _next_try_s.
        self._due_s: dict[str, float] = {}
        self._next_try_s = clock()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, report: CcaReport) -> None:
        """Send this report when it is due. It replaces a report of the same CCA that was not sent yet."""
        with self._changed:
            if self._newest.get(report.cca) != report:
                self._newest[report.cca] = report
                self._due_s[report.cca] = self._due_of(report)
                self._changed.notify()

    def stop(self) -> None:
        """End the current request and the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._client.abort()
        self._thread.join(timeout=_JOIN_S)

    def _due_of(self, report: CcaReport) -> float:
        """Return when to send a changed report. A delayed one that is replaced keeps its time."""
        now_s = self._clock()
        if not _tells_a_new_table(report, before=self._sent.get(report.cca)):
            return now_s
        return min(self._due_s.get(report.cca, math.inf), now_s + self._rng.uniform(0.0, self._spread_s))

    def _run(self) -> None:
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
                self._client.post_report(self._find_agent_id, report)
            except RegistryUnavailableError as error:
                if not self._failing and not self._stopping:
                    self._log.event("report_failed", cca=report.cca, error=str(error))
                self._failing = True
                return False
            self._sent_one(report)
        self._failing = False
        self._backoff.reset()
        return True

    def _sent_one(self, report: CcaReport) -> None:
        with self._changed:
            self._sent[report.cca] = report
            # A report that was submitted meanwhile has its own time.
            if self._newest[report.cca] == report:
                self._due_s[report.cca] = self._clock() + self._every_s * self._rng.uniform(0.8, 1.0)


def _tells_a_new_table(report: CcaReport, *, before: CcaReport | None) -> bool:
    """Whether the report says no more than that a table is in force which the last sent report does not name."""
    if report.state not in IN_FORCE or report.error is not None:
        return False
    return before is None or _table_of(before) != _table_of(report)


def _table_of(report: CcaReport) -> tuple[str | None, int]:
    return report.effective_digest, report.effective_serial
