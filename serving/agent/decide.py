# SPDX-License-Identifier: MIT
"""Decides what to do about one CCA. The decision is a pure function, so that `--dry-run` and the agent agree.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from serving.agent.kernel import why_not_taken

if TYPE_CHECKING:
    from serving.agent.kernel import KernelStatus, KernelView
    from serving.agent.table import Table


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

# The registry said nothing about the table in force, whose signature may therefore have expired.
WITHOUT_OFFER = frozenset({State.OFFLINE, State.NO_CHANNEL, State.TOKEN_REFUSED})


@dataclass(frozen=True)
class Record:
    """The kernel's state after the agent's last accepted write.

    taking_over: the agent is about to clear somebody else's table because an operator requested `resume`. If no
    table is in force at the next start, the agent was killed during this step, and nobody cleared the table by hand.
    """

    boot_id: str
    generation: int
    text_sha256: str
    taking_over: bool = False
    instance: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data; the inverse of from_json."""
        return {
            "boot_id": self.boot_id,
            "generation": self.generation,
            "text_sha256": self.text_sha256,
            "taking_over": self.taking_over,
            "instance": self.instance,
        }

    @staticmethod
    def from_json(data: Any) -> Record:
        """Build a record from JSON data. Raises KeyError, TypeError or ValueError where a field is missing or wrong."""
        return Record(
            boot_id=str(data["boot_id"]),
            generation=int(data["generation"]),
            text_sha256=str(data["text_sha256"]),
            taking_over=bool(data["taking_over"]),
            instance=str(data.get("instance", "")),
        )


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
class Situation:
    """All inputs of a decision.

    `good` is the last known good table, `offer` the newest valid offer of this run. `resume`: whether an operator
    returned the table to the agent's control. `registry_name`: the only registry to apply tables of; empty means any.
    good_is_trusted: whether the signatures of `good` were verified, or no root document is pinned.
    key_is_removed: whether the root document no longer names the key that signed `good`. Its serial then binds nobody.
    """

    channel: str
    kernel: KernelView
    boot_id: str
    good: Table | None = None
    offer: Table | None = None
    record: Record | None = None
    refusal: Refusal | None = None
    resume: bool = False
    registry_name: str = ""
    good_is_trusted: bool = True
    key_is_removed: bool = False


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


def decide(situation: Situation) -> Decision:
    """Return the decision for this situation."""
    kernel = situation.kernel
    if kernel.problem is not None:
        return Decision("nothing", kernel.problem, blocked=State.INCOMPATIBLE)
    target = _target(situation)
    if target is not None and kernel.holds(target):
        return Decision("nothing", f"the kernel holds {target.name} already", table=target)
    if not situation.resume and (whose := _somebody_elses(situation)) is not None:
        return Decision("nothing", whose, table=target, blocked=State.DEGRADED)
    if target is None:
        return Decision("nothing", _why_no_target(situation))
    if (problem := why_not_taken(kernel, target.ensemble)) is not None:
        return Decision("nothing", problem, table=target, blocked=State.INCOMPATIBLE)
    if _refused_before(situation, target) and situation.refusal is not None:
        return Decision("nothing", situation.refusal.why, table=target, blocked=State.REJECTED)
    return Decision(
        "apply", _why_apply(situation), table=target, may_clear=situation.resume or situation.key_is_removed
    )


def _target(situation: Situation) -> Table | None:
    """Return the table that should be in force, or None.

    It is the offer, or else the last known good table if that is from the registry and channel that the agent follows.
    """
    if situation.offer is not None:
        return situation.offer
    if situation.good is not None and _is_followed(situation, situation.good):
        return situation.good
    return None


def _is_followed(situation: Situation, table: Table) -> bool:
    deployment = table.deployment
    is_registrys = situation.registry_name in {"", deployment.registry}
    return deployment.channel == situation.channel and is_registrys and situation.good_is_trusted


def _somebody_elses(situation: Situation) -> str | None:
    """Return a message if somebody else changed or cleared the table since the agent wrote it, else None."""
    kernel, record, good = situation.kernel, situation.record, situation.good
    if record is None and good is None:
        return None
    if not kernel.has_table:
        if kernel.status is None or record is None or record.taking_over or record.boot_id != situation.boot_id:
            return None
        if _was_loaded_anew(kernel.status, record):
            return None
        return (
            "an operator cleared the table since this agent wrote it; "
            "`ccatune-agent resume` or SIGHUP gives it back to the agent"
        )
    ours = {good.unmarked_text_sha256 if good is not None else None, record.text_sha256 if record is not None else None}
    if ours & {kernel.text_sha256, kernel.unmarked_text_sha256}:
        return None
    status = kernel.status
    what = f"{status.registry}/{status.channel} serial {status.serial}" if status is not None else "a table"
    return (
        f"an operator changed the table since this agent wrote it: {what} is in force; "
        "`ccatune-agent resume` or SIGHUP gives it back to the agent"
    )


def _was_loaded_anew(status: KernelStatus, record: Record) -> bool:
    if status.instance and record.instance and status.instance != record.instance:
        return True
    return status.generation < record.generation


def _refused_before(situation: Situation, target: Table) -> bool:
    refusal, kernel = situation.refusal, situation.kernel
    if refusal is None or refusal.retry or situation.resume or kernel.status is None:
        return False
    return (
        refusal.text_sha256 == target.text_sha256
        and refusal.kernel_text_sha256 == kernel.text_sha256
        and refusal.module == kernel.status.module
    )


def _why_apply(situation: Situation) -> str:
    if situation.resume:
        return "an operator gave the table back to the agent"
    if situation.key_is_removed:
        return "the registry offers a table under a new key, and the root document has removed the key of the old one"
    if situation.offer is not None and situation.kernel.has_table:
        return "the registry offers another table than the one in force"
    if situation.offer is not None:
        return "the registry offers a table and none is in force"
    return "no table is in force (the machine was started or the module loaded anew): the last known good is applied"


def _why_no_target(situation: Situation) -> str:
    if situation.good is not None and not situation.good_is_trusted:
        return NOT_TRUSTED
    if situation.good is not None:
        good = situation.good.deployment
        return (
            f"the last known good is of {good.registry}/{good.channel}, "
            f"not of {situation.registry_name or good.registry}/{situation.channel}: "
            "it stays if it is in force, and is not applied anew"
        )
    return "there is no last known good, and no offer yet"
