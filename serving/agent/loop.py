# SPDX-License-Identifier: MIT
"""The agent's main loop, and its dry run.

One thread accesses the kernel and the state folder. It handles messages from pollers and signals, and checks the
kernel at a fixed interval.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from serving.agent.applier import Applier
from serving.agent.errors import RegistryUnavailableError, StateDirError
from serving.agent.log import EventLog
from serving.agent.settings import prefix_bits
from serving.agent.state import IN_FORCE, CcaState
from serving.agent.store import STATE, Store, find_agent_id, kept_agent_id
from serving.agent.table import Serials
from serving.agent.textfile import Textfile
from serving.agent.threads import Poller, Reporter, stop_all

# The modules for HTTP and TLS are imported after the last known good table is applied, so that they do not delay it.
if TYPE_CHECKING:
    import random

    from serving.agent.client import RegistryClient
    from serving.agent.kernel import Tree
    from serving.agent.settings import AgentSettings
    from serving.agent.state import CcaReport, PollResult
    from serving.agent.sums import SumsLedger
    from serving.agent.trust import Trust

_RUN_ID_BYTES = 8

Clock = Callable[[], float]


class Agent:
    """Applies the tables that the channel offers for the CCAs in `settings`. Each instance runs only once."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        tree: Tree,
        log: EventLog,
        boot_id: str,
        rng: random.Random | None = None,
        clock: Clock = time.monotonic,
        now_s: Clock = time.time,
    ) -> None:
        """Create the agent. Raises SettingsError where the root document cannot be used.

        rng: seeds the jitter between requests; None uses the system's random generator.
        now_s: gives the time since 1970, with which signatures expire.
        """
        self._settings = settings
        self._log = log
        self._given_rng = rng
        self._clock = clock
        self._store = Store(settings.state_dir)
        self._agent_id = settings.agent_id
        self._id_lock = threading.Lock()
        # Calls for the main thread; None ends it.
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._trust = _trust_of(settings, store=self._store, log=log, now_s=now_s)
        self._textfile = None
        if settings.textfile is not None:
            clients = (tree, prefix_bits(settings.rtcp_prefixes)) if settings.rtcp_prefixes else None
            self._textfile = Textfile(settings.textfile, log=log, clock=clock, now_s=now_s, clients=clients)
        run_id = os.urandom(_RUN_ID_BYTES).hex()
        self._appliers = [
            Applier(
                cca,
                settings=settings,
                tree=tree,
                store=self._store,
                log=log,
                boot_id=boot_id,
                trust=self._trust,
                run_id=run_id,
                clock=clock,
            )
            for cca in settings.ccas
        ]

    def stop(self) -> None:
        """Ask the agent to end. Tables stay in force. May be called from any thread or signal handler."""
        self._inbox.put(None)

    def resume(self) -> None:
        """Return all tables to the agent's control. May be called from any thread or signal handler."""
        for applier in self._appliers:
            self._inbox.put(applier.resume)

    def run(self, *, on_ready: Callable[[], None] = lambda: None) -> None:
        """Apply the last known good tables, call `on_ready`, then follow the registry until `stop` is called.

        Raises StateDirError.
        """
        with self._store.acquire():
            self._start_appliers()
            on_ready()
            self._load_trust()
            ledgers = {applier.cca: applier.sums for applier in self._appliers}
            reporter = Reporter(
                self._settings,
                find_agent_id=self._find_agent_id,
                client=self._client(),
                log=self._log,
                rng=self._rng(),
                clock=self._clock,
                sums_of=lambda cca: ledgers[cca].outstanding,
                acknowledge=lambda cca, sequence: self._inbox.put(
                    lambda: ledgers[cca].acknowledge(sequence, self._clock())
                ),
            )
            pollers = [self._poller(applier) for applier in self._appliers]
            try:
                reporter.start()
                for poller in pollers:
                    poller.start()
                self._follow(reporter)
            finally:
                stop_all([*pollers, reporter])
                if self._textfile is not None:
                    self._textfile.remove()
        self._log.event("stopped", tables="stay in force")

    def run_once(self) -> tuple[list[CcaReport], dict[str, str]]:
        """Apply the last known good tables, then the registry's current offers, and send the reports.

        Return the reports, and for each CCA whose report could not be sent, why. Raises StateDirError.
        """
        unsent: dict[str, str] = {}
        with self._store.acquire():
            self._start_appliers()
            self._load_trust()
            with self._client() as client:
                for applier in self._appliers:
                    self._receive(applier, client.poll(applier.cca, self._settings.channel))
                    applier.check()
                reports = [applier.report() for applier in self._appliers]
                self._write_textfile(reports)
                for applier, report in zip(self._appliers, reports, strict=True):
                    try:
                        self._report_once(client, report, applier.sums)
                    except RegistryUnavailableError as error:
                        unsent[report.cca] = str(error)
                        self._log.event("report_failed", cca=report.cca, error=str(error))
        return reports, unsent

    def _report_once(self, client: RegistryClient, report: CcaReport, sums: SumsLedger) -> None:
        sums.form()
        delta = sums.outstanding
        refused = client.post_report(self._find_agent_id, report, sums=delta)
        if refused is not None:
            self._log.event("sums_refused", cca=report.cca, error=refused)
        if delta is not None:
            sums.acknowledge(delta["sequence"], self._clock())
            # The next run forms another delta only if this one is known to be acknowledged.
            sums.save()

    def _start_appliers(self) -> None:
        self._log.event("started", url=self._settings.url, channel=self._settings.channel)
        for applier in self._appliers:
            applier.start()
        # If an earlier agent managed a CCA that this one does not, `status` would show its state for ever. Only the
        # state is deleted; the tables stay.
        for cca in self._store.ccas():
            if cca not in self._settings.ccas:
                with contextlib.suppress(StateDirError):
                    self._store.discard(cca, STATE)

    def _load_trust(self) -> None:
        """Verify the pinned root document. This comes after the last known good tables, which it would delay."""
        if self._trust is not None:
            root = self._trust.load()
            self._log.event("trusts", registry=root.registry, root=root.version)

    def _follow(self, reporter: Reporter) -> None:
        next_check_s = self._clock() + self._settings.interval_s
        while True:
            reports = [applier.report() for applier in self._appliers]
            for report in reports:
                reporter.submit(report)
            self._write_textfile(reports)
            with contextlib.suppress(queue.Empty):
                call = self._inbox.get(timeout=max(0.0, next_check_s - self._clock()))
                if call is None:
                    return
                call()
            if self._clock() >= next_check_s:
                next_check_s = self._clock() + self._settings.interval_s
                for applier in self._appliers:
                    applier.check()

    def _receive(self, applier: Applier, result: PollResult) -> None:
        if self._textfile is not None:
            self._textfile.note_answer(applier.cca, result)
        applier.receive(result)

    def _write_textfile(self, reports: list[CcaReport]) -> None:
        if self._textfile is not None:
            sums = {applier.cca: applier.sums for applier in self._appliers}
            self._textfile.write_if_due(reports, lambda cca: sums[cca].of_table())

    def _find_agent_id(self) -> str:
        # An id that cannot be saved is kept here. The pollers and the reporter may need the first id at the same time.
        with self._id_lock:
            self._agent_id = self._agent_id or find_agent_id(self._store, log=self._log)
            return self._agent_id

    def _rng(self) -> random.Random:
        import random

        # The jitter must differ between servers. Nothing depends on its being repeatable.
        seeds = self._given_rng if self._given_rng is not None else random.SystemRandom()
        return random.Random(seeds.getrandbits(64))  # noqa: S311 (jitter, not a secret)

    def _client(self) -> RegistryClient:
        from serving.agent.client import RegistryClient

        return RegistryClient(self._settings, trust=self._trust, find_agent_id=self._find_agent_id, clock=self._clock)

    def _poller(self, applier: Applier) -> Poller:
        return Poller(
            applier.cca,
            settings=self._settings,
            client=self._client(),
            deliver=lambda result: self._inbox.put(partial(self._receive, applier, result)),
            rng=self._rng(),
            clock=self._clock,
        )


@dataclass(frozen=True)
class Plan:
    """The action that the agent would take for one CCA.

    would: `apply TABLE`, `apply TABLE as urgent` or `nothing`.
    blocked: the state that the agent would report, or None where the kernel holds the offer or would receive it.
    registry: `answers` or an error message. damaged: a message for each damaged file of the state folder.
    """

    cca: str
    would: str
    why: str
    blocked: str | None
    registry: str
    damaged: tuple[str, ...]


def plan(settings: AgentSettings, *, tree: Tree, boot_id: str, now_s: Clock = time.time) -> list[Plan]:
    """Read the state folder and the kernel, request the offers once, and decide as the agent would. Writes nothing.

    Raises SettingsError where a TLS file or the root document is invalid, StateDirError where a file of the state
    folder is unreadable.
    """
    from serving.agent.client import RegistryClient

    store = Store(settings.state_dir)
    trust = _trust_of(settings, store=store, log=EventLog(), writes=False, now_s=now_s)
    if trust is not None:
        trust.load()
    plans = []
    # During a roll-out the offer depends on the agent. Without an id it never followed the registry.
    agent_id = settings.agent_id or kept_agent_id(store)
    find_agent_id = None if agent_id is None else (lambda: agent_id)
    with RegistryClient(settings, trust=trust, find_agent_id=find_agent_id) as client:
        for cca in settings.ccas:
            state = CcaState(cca, settings, boot_id, trust=trust)
            state.load(store, tree)
            if store.is_requested("forget", cca):
                state.serials = Serials()
            state.resume = store.is_requested("resume", cca)
            state.receive(client.poll(cca, settings.channel))
            plans.append(_plan_of(state))
    return plans


def _plan_of(state: CcaState) -> Plan:
    decision = state.decide()
    state.blocked = decision if decision.blocked is not None else None
    would, reported = "nothing", state.report().state
    if decision.action == "apply" and decision.table is not None:
        would = f"apply {decision.table.name}" + (" as urgent" if decision.table.deployment.urgent else "")
    return Plan(
        cca=state.cca,
        would=would,
        why=decision.why,
        blocked=None if reported in IN_FORCE else reported.value,
        registry=state.answer.error or "answers",
        damaged=tuple(state.damaged.values()),
    )


def _trust_of(
    settings: AgentSettings, *, store: Store, log: EventLog, writes: bool = True, now_s: Clock = time.time
) -> Trust | None:
    """Return the trust in the pinned root document of these settings, or None without one.

    Raises SettingsError where the file cannot be used, or nothing could verify its signatures.
    """
    if settings.root is None:
        return None
    from serving.agent.trust import Trust

    return Trust(settings.root, store=store, log=log, writes=writes, now_s=now_s)


def notify_systemd() -> None:
    """Notify systemd (Type=notify) that this process is ready for others. Without systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    import socket

    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        out.sendto(b"READY=1", address)
