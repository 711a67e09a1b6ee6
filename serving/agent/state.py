# SPDX-License-Identifier: MIT
"""What the agent knows of one CCA, and what follows from it: a decision and a report.

    Starting      the registry has not answered yet; the last known good table is in force if there is one
    InSync        the kernel reads back the table that the registry offers
    Offline       the registry gave no usable answer; the last known good table stays in force
    NoChannel     the registry answers, but has no such channel, or deleted it; the table stays in force
    TokenRefused  the registry does not accept the token, or the token is not for this; the table stays in force
    Rejected      the kernel (errno in words) or this agent's checks refused an offer; the old table stays in force
    Degraded      someone else changed the table since this agent wrote it; the agent leaves that table in force
    Incompatible  the module is not loaded, or does not support this CCA, a column or a value
    Stale         the signature of the table, or the root document, has expired; the table stays in force
    Unsigned      as InSync, but no root document is pinned, so nothing verifies who made the table

A table in force belongs to the agent if its text equals the last known good table or the last written text.
The mark `urgent` is ignored in this comparison: it says when flows apply a table, not which table it is.
After the agent's first write, any other table belongs to somebody else, and the state is Degraded.

If no table is in force, the record of the last write distinguishes two causes:
  - The boot (boot_id) and the load of the module (`instance`) are those of the record, and `generation` is not below
    the recorded one. The module was not loaded again since the write, so someone cleared the table: Degraded.
  - The boot or the instance differs, or `generation` is below the recorded one. The module was loaded again and
    counts from its beginning, so nobody cleared the table. The agent applies its own table.
Before the agent's first write, no table can belong to it. The first offer then replaces any table in force.

The state of a report is determined in this order:

    the last decision is blocked           its state: Rejected, Degraded or Incompatible
    no root document is pinned             the answer's state, with Unsigned in the place of InSync
    a signature or the root has expired,   Stale
      and the answer is InSync, Offline,
      NoChannel or TokenRefused
    otherwise                              the answer's state
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeVar

from serving.agent.errors import DamagedFileError, OfferRefusedError
from serving.agent.kernel import KernelView, look, why_not_taken
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, SERIALS
from serving.agent.table import Serials

if TYPE_CHECKING:
    from serving.agent.kernel import Tree
    from serving.agent.settings import AgentSettings
    from serving.agent.store import Store
    from serving.agent.table import Table
    from serving.agent.trust import Trust

# The registry refuses longer versions. An error is cut, for a cut error says more than a refused report.
_MAX_ERROR_CHARACTERS = 1000
_MAX_VERSION_CHARACTERS = 256

_Kind = TypeVar("_Kind")


class State(StrEnum):
    """State of a CCA, as the agent reports it. The module's docstring defines each state."""

    STARTING = "Starting"
    IN_SYNC = "InSync"
    OFFLINE = "Offline"
    NO_CHANNEL = "NoChannel"
    TOKEN_REFUSED = "TokenRefused"  # noqa: S105 (not a secret)
    REJECTED = "Rejected"
    DEGRADED = "Degraded"
    INCOMPATIBLE = "Incompatible"
    STALE = "Stale"
    UNSIGNED = "Unsigned"


NOT_TRUSTED = (
    "the last known good has no signatures that hold under the pinned root document: "
    "it stays if it is in force, and is not applied anew"
)

# The kernel holds the offered table.
IN_FORCE = frozenset({State.IN_SYNC, State.UNSIGNED})


@dataclass(frozen=True)
class PollResult:
    """The registry's answer to a request for the offer, or the lack of an answer.

    state: InSync with a new table, or without one where the last offer is still current; Rejected or Stale where the
    offer failed a check; NoChannel, TokenRefused or Offline. error: why, unless the state is InSync.
    etag: for the next request.
    """

    state: State
    table: Table | None = None
    error: str | None = None
    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Record:
    """The kernel's state after the agent's last accepted write.

    taking_over: the agent is about to clear somebody else's table because an operator requested `resume`. If no
    table is in force at the next start, the agent was killed during this step, and nobody cleared the table by hand.
    """

    boot_id: str
    instance: str
    generation: int
    text_sha256: str
    taking_over: bool = False


@dataclass(frozen=True)
class Refusal:
    """A table that the kernel refused, and the table in force and the module at that time.

    The agent does not write the table again while all three are unchanged, unless `retry` is set or an operator
    requests `resume`.
    """

    text_sha256: str
    kernel_text_sha256: str
    module: str
    why: str
    retry: bool = False


@dataclass(frozen=True)
class Decision:
    """What to do: `apply` means to write `table`, and `may_clear` permits clearing another table first.

    blocked: the state that prevents the registry's offer from being in force. None: the registry's answer sets the
    state.
    """

    action: Literal["nothing", "apply"]
    why: str
    table: Table | None = None
    may_clear: bool = False
    blocked: State | None = None


@dataclass(frozen=True)
class CcaReport:
    """The state of one CCA, as sent to the registry and shown by `status`.

    The fields `offered_*` describe the registry's offer, the fields `effective_*` the table in force.
    If there is no table, its digest is None and its serial is 0. `error` is None when nothing is wrong.
    effective_urgent: whether the table in force has the mark `urgent`. `status` shows it; the registry ignores it.
    run_id: a random word that each run of the agent chooses. By it the registry notices two agents under one id.
    labels: those of the settings.
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
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class CcaState:
    """What the agent knows of one CCA.

    settings: of the agent; its registry_name is the only registry whose tables are applied, and empty accepts any.
    trust: the pinned root document. kernel: what was read from the kernel last. answer: the registry's last answer.
    good: the last known good table. good_is_trusted: whether its signatures were verified, or no document is pinned.
    offer: the newest acceptable offer of this run. refused_offer: the last offer, where the agent refuses it.
    refusal: the table that the kernel refused. resume: an operator returned the table to the agent's control.
    blocked: the last decision, if it is blocked. damaged: a message for each unusable file of the state folder.
    """

    cca: str
    settings: AgentSettings
    boot_id: str
    trust: Trust | None = None
    kernel: KernelView = field(default_factory=lambda: KernelView(status=None, text="", parameters={}))
    answer: PollResult = field(default_factory=lambda: PollResult(State.STARTING))
    good: Table | None = None
    good_is_trusted: bool = True
    pending: Table | None = None
    offer: Table | None = None
    refused_offer: PollResult | None = None
    record: Record | None = None
    serials: Serials = field(default_factory=Serials)
    refusal: Refusal | None = None
    resume: bool = False
    blocked: Decision | None = None
    damaged: dict[str, str] = field(default_factory=dict)

    # -- events ------------------------------------------------------------------

    def load(self, store: Store, tree: Tree) -> None:
        """Read the kernel and the files of the CCA. A damaged file counts as missing. Writes nothing.

        If a kill interrupted the last application after the kernel's write, `good` is the pending table.
        Raises StateDirError where a file cannot be read, or where other users may write to the folder.
        """
        store.require_private(self.cca)
        self.good = self._file(LAST_KNOWN_GOOD, lambda: store.load_table(self.cca, LAST_KNOWN_GOOD))
        self.pending = self._file(PENDING, lambda: store.load_table(self.cca, PENDING))
        self.record = self._file(RECORD, lambda: store.load(self.cca, RECORD, lambda data: Record(**data)))
        serials = self._file(SERIALS, lambda: store.load(self.cca, SERIALS, Serials.from_json))
        self.kernel = look(tree, self.cca)
        if self.pending is not None and self.kernel.holds(self.pending):
            self.good = self.pending
        if serials is None:
            serials = Serials() if self.good is None else Serials().including(self.good)
        self.serials = serials
        self.good_is_trusted = self.good is None or self.is_trusted(self.good)

    def _file(self, name: str, load: Callable[[], _Kind | None]) -> _Kind | None:
        try:
            return load()
        except DamagedFileError as error:
            self.damaged[name] = str(error)
            return None

    def receive(self, result: PollResult) -> None:
        """Take the registry's answer. An offer is refused if its signatures, its registry or its serial are wrong."""
        self.answer = PollResult(result.state, error=result.error)
        if result.table is None:
            if result.state is State.IN_SYNC and self.refused_offer is not None:
                self.answer = self.refused_offer
            return
        try:
            self._require_acceptable(result.table)
        except OfferRefusedError as error:
            self.answer = self.refused_offer = PollResult(State.REJECTED, result.table, str(error))
            return
        self.refused_offer = None
        self.serials = self.serials.including(result.table)
        self.offer = result.table

    def _require_acceptable(self, table: Table) -> None:
        key_ids = frozenset[str]()
        if self.trust is not None:
            self.trust.require(table)
            key_ids = self.trust.registry_key_ids()
        registry, expected = table.deployment.registry, self.settings.registry_name
        if expected not in {"", registry}:
            raise OfferRefusedError(
                f"the registry's offer is refused: expected the registry's name {expected}, got {registry}; "
                "correct --registry-name, or --url"
            )
        why = self.serials.why_refused(table, key_ids=key_ids)
        if why is not None:
            raise OfferRefusedError(f"the registry's offer is refused: {why}")

    # -- what follows ------------------------------------------------------------

    def decide(self) -> Decision:
        """Return what to do. `--dry-run` and the agent decide alike."""
        if self.kernel.problem is not None:
            return Decision("nothing", self.kernel.problem, blocked=State.INCOMPATIBLE)
        target = self._target()
        if target is not None and self.kernel.holds(target):
            return Decision("nothing", f"the kernel holds {target.name} already", table=target)
        if not self.resume and (whose := self._somebody_elses()) is not None:
            return Decision("nothing", whose, table=target, blocked=State.DEGRADED)
        if target is None:
            return Decision("nothing", self._why_no_target())
        if (problem := why_not_taken(self.kernel, target.ensemble)) is not None:
            return Decision("nothing", problem, table=target, blocked=State.INCOMPATIBLE)
        if self.refusal is not None and self._was_refused(target, self.refusal):
            return Decision("nothing", self.refusal.why, table=target, blocked=State.REJECTED)
        may_clear = self.resume or self._key_is_removed()
        return Decision("apply", self._why_apply(), table=target, may_clear=may_clear)

    def _target(self) -> Table | None:
        """Return the table that should be in force, or None.

        It is the offer, or else the last known good table if that is from the registry and channel that are followed.
        """
        if self.offer is not None or self.good is None:
            return self.offer
        good, settings = self.good.deployment, self.settings
        is_followed = settings.registry_name in {"", good.registry} and good.channel == settings.channel
        return self.good if is_followed and self.good_is_trusted else None

    def _somebody_elses(self) -> str | None:
        """Return a message if somebody else changed or cleared the table since the agent wrote it, else None."""
        status, record, good = self.kernel.status, self.record, self.good
        if status is None or (record is None and good is None):
            return None
        if not self.kernel.text:
            # Only the record can tell that the module was not loaded again.
            if record is None or record.taking_over or record.boot_id != self.boot_id:
                return None
            if record.instance != status.instance or status.generation < record.generation:
                return None
            return (
                "an operator cleared the table since this agent wrote it; "
                "`ccatune-agent resume` or SIGHUP gives it back to the agent"
            )
        if self.kernel.text_sha256 in {one.text_sha256 for one in (good, record) if one is not None}:
            return None
        return (
            "an operator changed the table since this agent wrote it: "
            f"{status.registry}/{status.channel} serial {status.serial} is in force; "
            "`ccatune-agent resume` or SIGHUP gives it back to the agent"
        )

    def _was_refused(self, target: Table, refusal: Refusal) -> bool:
        if refusal.retry or self.resume or self.kernel.status is None:
            return False
        now = (target.text_sha256, self.kernel.text_sha256, self.kernel.status.module)
        return now == (refusal.text_sha256, refusal.kernel_text_sha256, refusal.module)

    def _key_is_removed(self) -> bool:
        """Whether the root document no longer names the key that signed `good`. Its serial then binds nobody."""
        if self.trust is None or self.offer is None or self.good is None or self.good.signed is None:
            return False
        return self.trust.has_removed(self.good.signed.key_id)

    def _why_apply(self) -> str:
        if self.resume:
            return "an operator gave the table back to the agent"
        if self._key_is_removed():
            return (
                "the registry offers a table under a new key, and the root document has removed the key of the old one"
            )
        if self.offer is not None and self.kernel.text:
            return "the registry offers another table than the one in force"
        if self.offer is not None:
            return "the registry offers a table and none is in force"
        return (
            "no table is in force (the machine was started or the module loaded anew): the last known good is applied"
        )

    def _why_no_target(self) -> str:
        if self.good is None:
            return "there is no last known good, and no offer yet"
        if not self.good_is_trusted:
            return NOT_TRUSTED
        return (
            f"the last known good is of {self.good.channel}, "
            f"not of {self.settings.registry_name or self.good.deployment.registry}/{self.settings.channel}: "
            "it stays if it is in force, and is not applied anew"
        )

    def is_trusted(self, table: Table) -> bool:
        """Whether the table's signatures were verified, or no root document is pinned."""
        return self.trust is None or self.trust.vouches_for(table)

    def why_stale(self) -> str | None:
        """Return why nothing vouches any more that the table in force is the current one, or None."""
        # In the last three states the registry says nothing of the table in force, whose signature may have expired.
        states = {State.IN_SYNC, State.OFFLINE, State.NO_CHANNEL, State.TOKEN_REFUSED}
        if self.trust is None or self.answer.state not in states:
            return None
        return self.trust.why_stale(self.offer if self.offer is not None else self.good)

    def report(self, *, run_id: str | None = None, unsaved: str | None = None) -> CcaReport:
        """Return the report. unsaved: which file of the state folder could not be saved, or None."""
        status, offer = self.kernel.status, self.offer
        effective = status if self.kernel.text else None
        state, errors = self._state_and_errors()
        if unsaved is not None:
            errors = (*errors, f"{unsaved} (the agent tries again; until then a reboot brings an older table back)")
        return CcaReport(
            cca=self.cca,
            channel=self.settings.channel,
            offered_digest=offer.ensemble.digest if offer is not None else None,
            offered_serial=offer.deployment.serial if offer is not None else 0,
            effective_digest=effective.digest if effective is not None else None,
            effective_serial=effective.serial if effective is not None else 0,
            effective_urgent=effective is not None and effective.urgent,
            state=state,
            error="; ".join(filter(None, errors))[:_MAX_ERROR_CHARACTERS] or None,
            kernel_version=os.uname().release,
            module_version=status.module[:_MAX_VERSION_CHARACTERS] if status is not None else None,
            agent_version=agent_version(),
            run_id=run_id,
            labels=dict(self.settings.labels),
        )

    def _state_and_errors(self) -> tuple[State, tuple[str | None, ...]]:
        if self.blocked is not None and self.blocked.blocked is not None:
            return self.blocked.blocked, (self.blocked.why,)
        error = (
            self.answer.error or self.damaged.get(LAST_KNOWN_GOOD) or (None if self.good_is_trusted else NOT_TRUSTED)
        )
        why_stale = self.why_stale()
        if why_stale is not None:
            return State.STALE, (why_stale, error)
        if self.trust is None and self.answer.state is State.IN_SYNC:
            return State.UNSIGNED, (error,)
        return self.answer.state, (error,)


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
