# SPDX-License-Identifier: MIT
"""Rules for roll-outs by switchback: all servers alternate between both tables, in blocks of time.

    block      | wash-out   | counts                     |     is judged from here on
    next block                                           | wash-out   | counts ...

- Each block is a deployment of all servers with the next serial, also where the table stays the same. Agents refuse
  older serials, and the sums of flows are kept by serial, so that each block has its own sums.
- Figures of a block: the sums with its serial that have arrived, less those that had arrived when its wash-out was
  over. A report that arrives late therefore still counts for its block. Only the roll-out's servers count.
- A block is judged from the end of the next wash-out on, so that the reports of its last flows have arrived. For this
  the wash-out must be longer than the time between two reports of an agent.
- While the registry is away, a block goes on and becomes longer. If its wash-out was over meanwhile, the block counts
  only from the return on, and has its whole length from there.
- A pause gives the baseline to all servers. The block that it cuts short does not count, and neither does its pair. A
  resumption begins a new pair.
- The blocks stand in the roll-out's record, and are not in the audit log. Their deployments are urgent if the start
  requested this, which is the same for both arms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.service import Change
from serving.database import ChannelRow, DeploymentRow, RolloutBlockRow, RolloutRow
from serving.qos.schemas import hour_of
from serving.rollouts import repository
from serving.rollouts.assignment import arm_of_block
from serving.rollouts.plan import Switchback
from serving.rollouts.standing import plan_of
from serving.rollouts.statistics import Arm, Sums, Unit


@dataclass(frozen=True)
class Turn:
    """When the wash-out of a roll-out's block is over, or when the block is."""

    cca: str
    channel: str
    at: datetime


def next_turn(session: Session, rollout_id: int) -> Turn | None:
    """Return the next turn of a roll-out, or None if it is by servers, paused or over."""
    row = repository.find(session, rollout_id)
    if row is None or row.state != "running" or row.block is None:
        return None
    return Turn(row.channel.cca, row.channel.name, _turn_at(_switchback_of(row), repository.last_block(session, row)))


def take_turn(session: Session, rollout_id: int, change: Change) -> int | None:
    """Note the end of the wash-out, or begin the next block, if it is time. Return the channel's revision for a block.

    Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    # Another process may have taken this turn, or someone may have ended the roll-out.
    row = repository.find(session, rollout_id)
    turn = next_turn(session, rollout_id)
    now = change.clock()
    if row is None or turn is None or now < turn.at:
        return None
    block = repository.last_block(session, row)
    if block.counts_from is None:
        block.counts_from = now
        block.washed_out = repository.as_text(_sums_of(session, row, since=block).get(block.serial, (Sums(), 0))[0])
        session.flush()
        return None
    block.ended_at = now
    begin_block(session, channel, row, change)
    return channel.revision


def begin_block(session: Session, channel: ChannelRow, row: RolloutRow, change: Change) -> None:
    """Begin the roll-out's next block; after a pause, that of the next pair. The channel must be locked.

    Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    last = -1 if row.block is None else row.block
    block = last + 1
    if row.state == "paused":
        block += block % 2
    arm = arm_of_block(str(row.id), block)
    deployed = _deploy(session, channel, row, change, arm=arm, note=f"block {block + 1}, {arm}")
    has_none = _switchback_of(row).washout_s == 0
    session.add(
        RolloutBlockRow(
            rollout_id=row.id, serial=deployed.serial, block=block, arm=arm, began_at=deployed.deployed_at,
            counts_from=deployed.deployed_at if has_none else None,
            washed_out=repository.as_text(Sums()) if has_none else None, ended_at=None,
        )
    )  # fmt: skip
    row.block = block
    reasons = [f"Block {block + 1} begins: all servers are offered the {arm}, with serial {deployed.serial}."]
    repository.note(session, row, at=deployed.deployed_at, actor=change.by.name, action="block", reasons=reasons)
    session.flush()


def begin_pause(session: Session, channel: ChannelRow, row: RolloutRow, change: Change) -> None:
    """Give the baseline to all servers. The channel must be locked.

    Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    deployed = _deploy(session, channel, row, change, arm="baseline", note="paused, baseline")
    session.add(
        RolloutBlockRow(
            rollout_id=row.id, serial=deployed.serial, block=None, arm="baseline", began_at=deployed.deployed_at,
            counts_from=None, washed_out=None, ended_at=None,
        )
    )  # fmt: skip
    session.flush()


def block_units(session: Session, row: RolloutRow, *, now: datetime) -> list[Unit]:
    """Return the blocks that are judged now, each with its sums."""
    switchback = _switchback_of(row)
    blocks = repository.blocks(session, row.id)
    sums = _sums_of(session, row, since=blocks[0]) if blocks else {}
    settled_s = timedelta(seconds=switchback.washout_s)
    units = []
    for block in blocks:
        if block.block is None or block.washed_out is None or block.ended_at is None:
            continue
        if now < block.ended_at + settled_s:
            continue
        arm: Arm = "candidate" if block.arm == "candidate" else "baseline"
        total, n_servers = sums.get(block.serial, (Sums(), 0))
        since = total - repository.of_text(block.washed_out)
        units.append(Unit(f"block {block.block + 1}", arm, since, pair=block.block // 2, n_servers=n_servers))
    return units


def _sums_of(session: Session, row: RolloutRow, *, since: RolloutBlockRow) -> Mapping[int, tuple[Sums, int]]:
    return repository.sums_of_rollout(
        session, row, since_serial=since.serial, hours=(hour_of(since.began_at), repository.AS_OF_NOW)
    )


def _turn_at(switchback: Switchback, block: RolloutBlockRow) -> datetime:
    if block.counts_from is None:
        return block.began_at + timedelta(seconds=switchback.washout_s)
    return block.counts_from + timedelta(seconds=switchback.block_s - switchback.washout_s)


def _deploy(
    session: Session, channel: ChannelRow, row: RolloutRow, change: Change, *, arm: Arm, note: str
) -> DeploymentRow:
    arms = {
        "candidate": channels.deployment(session, channel_id=channel.id, serial=row.candidate_serial),
        "baseline": channels.deployment(session, channel_id=channel.id, serial=row.baseline_serial),
    }
    source, candidate = arms[arm], arms["candidate"]
    assert source is not None and candidate is not None  # noqa: S101, PT018 - a channel with a roll-out is not deleted
    return moves.deploy(
        session, channel, change, digest=source.digest, hold_back_permille=source.hold_back_permille,
        urgent=candidate.urgent, note=f"roll-out {row.id}: {note}", kind="block",
    )  # fmt: skip


def _switchback_of(row: RolloutRow) -> Switchback:
    switchback = plan_of(row).switchback
    assert switchback is not None  # noqa: S101 - a roll-out with blocks
    return switchback
