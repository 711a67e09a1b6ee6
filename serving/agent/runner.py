# SPDX-License-Identifier: MIT
"""The agent's main loop.

One thread accesses the kernel and the state folder. It handles messages from pollers and signals, and checks the
kernel at a fixed interval.
"""

from __future__ import annotations

import contextlib
import os
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from serving.agent.errors import RegistryUnavailableError, StateDirError
from serving.agent.keeper import Keeper
from serving.agent.publishing import CONFIRM_EVERY_S
from serving.agent.store import STATE, Store

# The modules for HTTP and TLS are imported after the last known good table is applied, so that they do not delay it.
if TYPE_CHECKING:
    import random

    from serving.agent.log import EventLog
    from serving.agent.registry import RegistryClient
    from serving.agent.report import CcaReport
    from serving.agent.settings import AgentSettings
    from serving.agent.threads import Heard, Poller, Reporter
    from serving.agent.tree import Tree
    from serving.agent.trust import Trust

_RUN_ID_BYTES = 8
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")

Clock = Callable[[], float]


@dataclass(frozen=True)
class _Asked:
    """A request from a signal handler or from the owner of the agent."""

    what: Literal["stop", "resume"]


def read_boot_id(path: Path = BOOT_ID_PATH) -> str:
    """Return the id of this boot, or `unknown` if the system does not report one."""
    try:
        return path.read_text(encoding="ascii").strip() or "unknown"
    except OSError:
        return "unknown"


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
        self._inbox: queue.SimpleQueue[Heard | _Asked] = queue.SimpleQueue()
        self._trust = trust_of(settings, store=self._store, log=log, now_s=now_s)
        run_id = os.urandom(_RUN_ID_BYTES).hex()
        self._keepers = {
            cca: Keeper(
                cca,
                channel=settings.channel,
                registry_name=settings.registry_name,
                trust=self._trust,
                run_id=run_id,
                tree=tree,
                store=self._store,
                log=log,
                boot_id=boot_id,
                confirm_every_s=max(CONFIRM_EVERY_S, settings.interval_s),
                clock=clock,
            )
            for cca in settings.ccas
        }

    def stop(self) -> None:
        """Ask the agent to end. Tables stay in force. May be called from any thread or signal handler."""
        self._inbox.put(_Asked("stop"))

    def resume(self) -> None:
        """Return all tables to the agent's control. May be called from any thread or signal handler."""
        self._inbox.put(_Asked("resume"))

    def run(self, *, on_ready: Callable[[], None] = lambda: None) -> None:
        """Apply the last known good tables, call `on_ready`, then follow the registry until `stop` is called.

        Raises StateDirError.
        """
        with self._store.acquire():
            self._start_keepers()
            on_ready()
            self._load_trust()
            reporter = self._reporter()
            pollers = [self._poller(cca) for cca in self._keepers]
            try:
                reporter.start()
                for poller in pollers:
                    poller.start()
                self._follow(reporter)
            finally:
                for poller in pollers:
                    poller.stop()
                reporter.stop()
        self._log.event("stopped", tables="stay in force")

    def run_once(self) -> tuple[list[CcaReport], dict[str, str]]:
        """Apply the last known good tables, then the registry's current offers, and send the reports.

        Return the reports, and for each CCA whose report could not be sent, why. Raises StateDirError.
        """
        unsent: dict[str, str] = {}
        with self._store.acquire():
            self._start_keepers()
            self._load_trust()
            from serving.agent.threads import ask

            with self._client() as client:
                for cca, keeper in self._keepers.items():
                    heard, _ = ask(client, cca, self._settings.channel)
                    _tell(keeper, heard)
                    keeper.check()
                reports = [keeper.report() for keeper in self._keepers.values()]
                for report in reports:
                    try:
                        client.post_report(self._find_agent_id, report)
                    except RegistryUnavailableError as error:
                        unsent[report.cca] = str(error)
                        self._log.event("report_failed", cca=report.cca, error=str(error))
        return reports, unsent

    def _start_keepers(self) -> None:
        self._log.event("started", url=self._settings.url, channel=self._settings.channel)
        for keeper in self._keepers.values():
            keeper.start()
        # If an earlier agent managed a CCA that this one does not, `status` would show its state for ever. Only the
        # state is deleted; the tables stay.
        for cca in self._store.ccas():
            if cca not in self._keepers:
                with contextlib.suppress(StateDirError):
                    self._store.discard(cca, STATE)

    def _load_trust(self) -> None:
        """Verify the pinned root document. This comes after the last known good tables, which it would delay."""
        if self._trust is not None:
            root = self._trust.load()
            self._log.event("trusts", registry=root.registry, root=root.version)

    def _follow(self, reporter: Reporter) -> None:
        next_look_s = self._clock() + self._settings.interval_s
        while True:
            for keeper in self._keepers.values():
                reporter.submit(keeper.report())
            message = self._next_message(until_s=next_look_s)
            if isinstance(message, _Asked) and message.what == "stop":
                return
            if isinstance(message, _Asked):
                for keeper in self._keepers.values():
                    keeper.resume()
            elif message is not None:
                _tell(self._keepers[message.cca], message)
            if self._clock() >= next_look_s:
                next_look_s = self._clock() + self._settings.interval_s
                for keeper in self._keepers.values():
                    keeper.check()

    def _next_message(self, *, until_s: float) -> Heard | _Asked | None:
        try:
            return self._inbox.get(timeout=max(0.0, until_s - self._clock()))
        except queue.Empty:
            return None

    def _find_agent_id(self) -> str:
        from serving.agent.identity import find_agent_id

        # An id that cannot be saved is kept here.
        if not self._agent_id:
            self._agent_id = find_agent_id("", store=self._store, log=self._log)
        return self._agent_id

    def _rng(self) -> random.Random:
        import random

        # The jitter must differ between servers. Nothing depends on its being repeatable.
        seeds = self._given_rng if self._given_rng is not None else random.SystemRandom()
        return random.Random(seeds.getrandbits(64))  # noqa: S311 (jitter, not a secret)

    def _client(self) -> RegistryClient:
        from serving.agent.registry import client_of

        return client_of(self._settings, trust=self._trust, clock=self._clock)

    def _poller(self, cca: str) -> Poller:
        from serving.agent.threads import Poller

        return Poller(
            cca,
            channel=self._settings.channel,
            client=self._client(),
            tell=self._inbox.put,
            wait_s=self._settings.wait_s,
            backoff_max_s=self._settings.backoff_max_s,
            rng=self._rng(),
            clock=self._clock,
        )

    def _reporter(self) -> Reporter:
        from serving.agent.threads import Reporter

        return Reporter(
            find_agent_id=self._find_agent_id,
            client=self._client(),
            log=self._log,
            every_s=self._settings.report_every_s,
            spread_s=self._settings.report_spread_s,
            backoff_max_s=self._settings.backoff_max_s,
            rng=self._rng(),
            clock=self._clock,
        )


def _tell(keeper: Keeper, heard: Heard) -> None:
    if heard.kind == "offered" and heard.table is not None:
        keeper.offered(heard.table)
    elif heard.kind == "unchanged":
        keeper.unchanged()
    else:
        from serving.agent.threads import STATE_OF

        keeper.no_offer(STATE_OF[heard.kind], heard.error)


def trust_of(
    settings: AgentSettings, *, store: Store, log: EventLog, writes: bool = True, now_s: Clock = time.time
) -> Trust | None:
    """Return the trust in the pinned root document of these settings, or None without one.

    Raises SettingsError where the file cannot be used, or nothing could verify its signatures.
    """
    if settings.root is None:
        return None
    from serving.agent.trust import Trust

    return Trust(settings.root, store=store, log=log, writes=writes, now_s=now_s)


def notify_systemd(message: str = "READY=1") -> None:
    """Notify systemd (Type=notify) that the last known good tables were applied. Without systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    import socket

    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        out.sendto(message.encode("ascii"), address)
