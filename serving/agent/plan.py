# SPDX-License-Identifier: MIT
"""The option `--dry-run`: determines what the agent would do now, and why, without writing anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from serving.agent.decide import WITHOUT_OFFER, Decision, Situation, State, decide
from serving.agent.errors import OfferRefusedError
from serving.agent.kernel import KernelView, look
from serving.agent.log import EventLog
from serving.agent.registry import client_of
from serving.agent.remembered import Remembered, remember
from serving.agent.runner import trust_of
from serving.agent.serials import Serials, check_registry_name
from serving.agent.settings import AgentSettings
from serving.agent.store import Store
from serving.agent.table import Table
from serving.agent.threads import STATE_OF, Heard, ask
from serving.agent.tree import Tree
from serving.agent.trust import Trust


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

    @property
    def holds(self) -> bool:
        """Whether the kernel holds the registry's offer or would receive it."""
        return self.blocked is None

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON data."""
        return asdict(self)


def plan(settings: AgentSettings, *, tree: Tree, boot_id: str, now_s: Callable[[], float] = time.time) -> list[Plan]:
    """Read the state folder and the kernel, request the offers once, and decide as the agent would.

    Raises SettingsError where a TLS file or the root document is invalid, StateDirError where a file of the state
    folder is unreadable.
    """
    store = Store(settings.state_dir)
    trust = trust_of(settings, store=store, log=EventLog(as_json=False), writes=False, now_s=now_s)
    if trust is not None:
        trust.load()
    return [
        _plan_cca(cca, settings=settings, store=store, tree=tree, boot_id=boot_id, trust=trust) for cca in settings.ccas
    ]


def _plan_cca(
    cca: str, *, settings: AgentSettings, store: Store, tree: Tree, boot_id: str, trust: Trust | None
) -> Plan:
    remembered = remember(store, cca)
    kernel = look(tree, cca)
    good = _settled(remembered, kernel=kernel)
    serials = Serials() if store.is_asked_to("forget", cca) else remembered.serials_after(good)
    good_is_trusted = good is None or trust is None or trust.vouches_for(good)
    with client_of(settings, trust=trust) as client:
        heard, _ = ask(client, cca, settings.channel)
    heard = _checked(heard, registry_name=settings.registry_name, serials=serials, trust=trust)
    decision = decide(
        Situation(
            channel=settings.channel,
            registry_name=settings.registry_name,
            kernel=kernel,
            boot_id=boot_id,
            good=good,
            good_is_trusted=good_is_trusted,
            key_is_removed=_is_key_removed(trust, good, heard.table),
            offer=heard.table,
            record=remembered.record,
            resume=store.is_asked_to("resume", cca),
        )
    )
    return Plan(
        cca=cca,
        would=_would(decision),
        why=decision.why,
        blocked=_blocked(decision, heard, is_stale=trust is not None and trust.why_stale(good) is not None),
        registry=heard.error or "answers",
        damaged=tuple(remembered.damaged.values()),
    )


def _checked(heard: Heard, *, registry_name: str, serials: Serials, trust: Trust | None) -> Heard:
    """Return what the agent would make of this answer: an offer that it refuses becomes a refusal."""
    if heard.table is None:
        return heard
    try:
        check_registry_name(heard.table, registry_name)
        serials.check(heard.table, key_ids=trust.registry_key_ids() if trust is not None else ())
    except OfferRefusedError as error:
        return Heard(heard.cca, "refused", error=str(error))
    return heard


def _is_key_removed(trust: Trust | None, good: Table | None, offer: Table | None) -> bool:
    if trust is None or offer is None or good is None or good.signed is None:
        return False
    return trust.has_removed(good.signed.key_id)


def _would(decision: Decision) -> str:
    if decision.action != "apply" or decision.table is None:
        return "nothing"
    return f"apply {decision.table.name}" + (" as urgent" if decision.table.deployment.urgent else "")


def _settled(remembered: Remembered, *, kernel: KernelView) -> Table | None:
    """Return the table that the next start of the agent would use as the last known good."""
    pending = remembered.pending
    return pending if pending is not None and kernel.holds(pending) else remembered.good


def _blocked(decision: Decision, heard: Heard, *, is_stale: bool) -> str | None:
    if decision.blocked is not None:
        return decision.blocked.value
    state = STATE_OF.get(heard.kind)
    if state in WITHOUT_OFFER and is_stale:
        return State.STALE.value
    return None if state is None else state.value
