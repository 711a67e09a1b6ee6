# SPDX-License-Identifier: MIT
"""What to do about one CCA: a pure function of what is known, so that `--dry-run` and the agent cannot differ.

    Starting      nothing was heard from the registry yet; the last known good is in force if there is one
    InSync        the kernel reads back the table that the registry offers
    Offline       no usable answer from the registry; the last known good stays in force
    Rejected      an offer was refused, by the kernel (errno in words) or by this agent's checks; the old table stays
    Degraded      someone else changed the table since this agent wrote it; the agent pauses and does not fight
    Incompatible  the running module does not take this CCA, a column or a value, or is not loaded

Whose table is it? Text that equals the last known good, or the text of the
last write, is ours. The mark `urgent` makes no difference: it says when flows
take a table, not which table it is. Any other text is somebody else's, once we have written:
Degraded. An empty tree says nothing by itself, so the record of the last write
tells two cases apart:
  - the same boot (boot_id), the same load of the module (`instance`) and a
    `generation` at or above that of our write: the module still counts on from
    it, so someone cleared the table: Degraded;
  - another boot or instance, or a `generation` below: the module was loaded
    anew and counts from its beginning: the table is nobody's, and ours is applied.
Before the first write there is nothing that could have been changed: whatever
is in force is replaced by the first offer.
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
    """What the agent reports of a CCA."""

    STARTING = "Starting"
    IN_SYNC = "InSync"
    OFFLINE = "Offline"
    REJECTED = "Rejected"
    DEGRADED = "Degraded"
    INCOMPATIBLE = "Incompatible"


@dataclass(frozen=True)
class Record:
    """The kernel after our last write that it took.

    taking_over: the table of somebody else is about to be cleared on an
    operator's word; an empty tree then means a kill in between, not a clear by hand.
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
        """Raises KeyError, TypeError or ValueError where a field is missing or of another type."""
        return Record(
            boot_id=str(data["boot_id"]),
            generation=int(data["generation"]),
            text_sha256=str(data["text_sha256"]),
            taking_over=bool(data["taking_over"]),
            instance=str(data.get("instance", "")),
        )


@dataclass(frozen=True)
class Refusal:
    """A table that the kernel refused, and what the kernel held then: as long as both stay, it is not tried again."""

    text_sha256: str
    kernel_text_sha256: str
    module: str
    why: str
    retry: bool = False


@dataclass(frozen=True)
class Situation:
    """All that a decision depends on. `good` is the last known good, `offer` the newest valid offer of this run."""

    channel: str
    kernel: KernelView
    boot_id: str
    good: Table | None = None
    offer: Table | None = None
    record: Record | None = None
    refusal: Refusal | None = None
    resume: bool = False


@dataclass(frozen=True)
class Decision:
    """What to do: `apply` writes `table` (clearing another one first only if `may_clear`).

    blocked: the state that stands in the way, None where the registry's word decides.
    """

    action: Literal["nothing", "apply"]
    why: str
    table: Table | None = None
    may_clear: bool = False
    blocked: State | None = None


def decide(situation: Situation) -> Decision:
    """Return what to do about the CCA now."""
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
    return Decision("apply", _why_apply(situation), table=target, may_clear=situation.resume)


def _target(situation: Situation) -> Table | None:
    """Return the table that ought to be in force: the offer, else the last known good of the channel we follow."""
    if situation.offer is not None:
        return situation.offer
    if situation.good is not None and situation.good.deployment.channel == situation.channel:
        return situation.good
    return None


def _somebody_elses(situation: Situation) -> str | None:
    """Return why the table in force, or its absence, is somebody else's doing; None where it is not."""
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
            "`ccatune agent resume` or SIGHUP gives it back to the agent"
        )
    ours = {good.unmarked_text_sha256 if good is not None else None, record.text_sha256 if record is not None else None}
    if ours & {kernel.text_sha256, kernel.unmarked_text_sha256}:
        return None
    status = kernel.status
    what = f"{status.registry}/{status.channel} serial {status.serial}" if status is not None else "a table"
    return (
        f"an operator changed the table since this agent wrote it: {what} is in force; "
        "`ccatune agent resume` or SIGHUP gives it back to the agent"
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
    if situation.offer is not None and situation.kernel.has_table:
        return "the registry offers another table than the one in force"
    if situation.offer is not None:
        return "the registry offers a table and none is in force"
    return "no table is in force (the machine was started or the module loaded anew): the last known good is applied"


def _why_no_target(situation: Situation) -> str:
    if situation.good is not None:
        return (
            f"the last known good is of channel {situation.good.deployment.channel}, not of {situation.channel}: "
            "it stays if it is in force, and is not applied anew"
        )
    return "there is no last known good, and no offer yet"
