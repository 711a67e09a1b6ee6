# SPDX-License-Identifier: MIT
"""Rules for roll-outs.

- The start takes the channel's next serial for the candidate, a deployment that only the candidate's servers are
  offered. All other servers keep the channel's current deployment, the baseline.
- The servers are those that follow the channel and have reported lately. Their order is drawn at the start, within the
  values of the plan's label. A server that appears later keeps the baseline and is not compared, and so does one whose
  poll does not name it.
- The steps change which servers have the candidate, and take no serial. By switchback all servers alternate, and no
  server is offered the deployment of the start (switchback.py).
- An abort points the whole channel to the baseline, urgently, and a promotion to the candidate. Both are ordinary moves
  with the next serial, so no server is ever offered an older serial than the one it has.
- Every start, request and decision that changes something is in the audit log, in the transaction of the change. The
  roll-out's own record also has every look, with its figures.
- The figures of a step are the sums that arrived since it began, of flows that use the table of their server's arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from sqlalchemy.orm import Session

from serving.access import audit
from serving.channels import repository as channels
from serving.channels import service as moves
from serving.channels.service import Change
from serving.database import ChannelRow, RolloutEventRow, RolloutRow, RolloutServerRow
from serving.errors import (
    RolloutImpossibleError,
    RolloutNotFoundError,
    RolloutRunningError,
    RolloutStateError,
    ShadowGateError,
)
from serving.qos.schemas import hour_of
from serving.rollouts import repository, switchback, wording
from serving.rollouts.assignment import n_candidates, order_of
from serving.rollouts.decision import Decision, decide, is_look_due
from serving.rollouts.plan import Plan
from serving.rollouts.schemas import RolloutAction, RolloutStart
from serving.rollouts.shadow import objections
from serving.rollouts.standing import clock_of, n_treated, plan_of
from serving.rollouts.statistics import LEAST_BASELINE, Arm, Sums, Unit

# Sums of this time before the start are subtracted from those of a step.
_BEFORE = timedelta(hours=24)


@dataclass(frozen=True)
class Judged:
    """A decision on a roll-out as it stood when its figures were read."""

    rollout_id: int
    cca: str
    channel: str
    state: str
    step: int
    n_looks: int
    decision: Decision


def start(
    session: Session, change: Change, wanted: RolloutStart, *, kept_days: float, needs_shadow: bool
) -> RolloutRow:
    """Begin a roll-out of the channel. Return it; for a repeated request, the one of the first.

    kept_days: how long the registry keeps the sums of single servers. needs_shadow: whether the shadow gate is closed
    without a comparison. A comparison that is given is judged in any case.

    Raises:
        EnsembleNotFoundError, WrongAlgorithmError, ChannelNotFoundError, SerialMismatchError,
        IdempotencyKeyReusedError, EnsembleUnsignedError, RootExpiredError: as for a move.
        RolloutRunningError: the channel has a roll-out that has not ended.
        RolloutImpossibleError: too few servers follow the channel, or the registry cannot follow the plan.
        ShadowGateError: the shadow gate is closed, and `force` gives no reason.
    """
    moves.require_ensemble(session, wanted.digest, cca=change.cca)
    moves.current(session, cca=change.cca, name=change.name)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    made = moves.made_before(session, channel, change.idempotency)
    if made is not None:
        known = repository.of_serial(session, channel_id=channel.id, candidate_serial=made.serial)
        if known is not None:
            return get(session, cca=change.cca, name=change.name, rollout_id=known.id)
    moves.require_match(session, channel, change)
    running = repository.find_open(session, channel_id=channel.id)
    if running is not None:
        raise RolloutRunningError(
            f"{channel.cca}/{channel.name}: expected no roll-out under way, roll-out {running.id} is {running.state}; "
            "abort or promote it first"
        )
    baseline = moves.deployed_by(session, channel)
    now = change.clock()
    plan = wanted.plan
    servers = repository.servers_of(
        session, channel=channel, since=now - timedelta(seconds=plan.silent_s), label=plan.stratify_by
    )
    require_possible(plan, n_servers=len(servers), kept_days=kept_days)
    against = objections(wanted.shadow, baseline=baseline.digest, candidate=wanted.digest, plan=plan)
    if wanted.shadow is None and not needs_shadow:
        against = []
    if against and not wanted.force:
        raise ShadowGateError(
            f"{' '.join(against)} Give the result of `ccatune evaluate CANDIDATE --baseline BASELINE --json` as "
            "`shadow`, or a reason as `force`"
        )
    candidate = moves.deploy(
        session, channel, change, digest=wanted.digest, hold_back_permille=wanted.hold_back_permille,
        urgent=wanted.urgent, note=wanted.note, kind="candidate",
    )  # fmt: skip
    row = RolloutRow(
        channel=channel, state="running", plan=plan.model_dump_json(), digest=wanted.digest,
        baseline_serial=baseline.serial, candidate_serial=candidate.serial, note=wanted.note, n_servers=len(servers),
        step=0, step_began_at=now, limit_from_at=now, n_looks=0, last_look_at=None, block=None, started_at=now,
        ended_at=None,
    )  # fmt: skip
    session.add(row)
    session.flush()
    _add_servers(session, row, servers, now=now)
    if plan.switchback is None:
        reasons = [
            f"{n_treated(row)} of {len(servers)} servers get the ensemble {wanted.digest}, the candidate.",
            f"The others keep the ensemble {baseline.digest}, the baseline.",
        ]
    else:
        reasons = [
            wording.alternating(len(servers), plan.switchback),
            f"The candidate is the ensemble {wanted.digest}, the baseline {baseline.digest}.",
        ]
    if against:
        reasons += [*against, f"It begins nevertheless: {wanted.force}"]
        audit.record(
            session, by=change.by, action="override-shadow-gate", target=f"channel {channel.cca}/{channel.name}",
            now=now, rollout=row.id, reason=wanted.force, objections=against,
        )  # fmt: skip
    elif wanted.shadow is not None:
        reasons.append("In the simulator the candidate is not worse than the baseline by more than a margin.")
    shadow = {} if wanted.shadow is None else {"shadow": wanted.shadow.model_dump(mode="json")}
    repository.note(session, row, at=now, actor=change.by.name, action="start", reasons=reasons, evidence=shadow)
    session.flush()
    if plan.switchback is not None:
        switchback.begin_block(session, channel, row, change)
    return row


def _add_servers(session: Session, row: RolloutRow, servers: Mapping[str, tuple[int, str]], *, now: datetime) -> None:
    """servers: the id of each agent's row and its stratum."""
    hours = (hour_of(now - _BEFORE), hour_of(now))
    before = by_agent(repository.sums_of_agents(session, channel_id=row.channel_id, hours=hours))
    begun = _since_the_hour(session, row)
    strata = {agent_id: stratum for agent_id, (_, stratum) in servers.items()}
    for place, agent_id in enumerate(order_of(str(row.id), strata)):
        agent, _ = servers[agent_id]
        arm_serial = row.candidate_serial if place < n_treated(row) else row.baseline_serial
        session.add(
            RolloutServerRow(
                rollout_id=row.id, place=place, agent=agent, agent_id=agent_id,
                before=repository.as_text(before.get(agent, Sums())),
                begun=repository.as_text(begun.get((agent, arm_serial), Sums())),
            )
        )  # fmt: skip


def require_possible(plan: Plan, *, n_servers: int, kept_days: float) -> None:
    """Raise RolloutImpossibleError if so many servers cannot follow the plan, or the registry cannot judge it."""
    needed = 1
    if plan.switchback is None:
        needed = next(number for number in count(2 * plan.least_servers) if _can_judge(plan, n_servers=number))
    if n_servers < needed:
        servers = "1 server that follows" if needed == 1 else f"{needed} servers that follow"
        raise RolloutImpossibleError(
            f"expected at least {servers} the channel, with a report in the last {plan.silent_s:g} s, found "
            f"{n_servers}; move the channel instead"
        )
    longest_s = max(step.most_s for step in plan.steps)
    if longest_s > (kept_days - 1) * 86400:
        raise RolloutImpossibleError(
            f"steps: expected a most_s of at most {(kept_days - 1) * 86400:g} s, because the registry keeps the sums "
            f"of single servers for {kept_days:g} days (`qos_agent_retention_days`), got {longest_s:g} s"
        )


def _can_judge(plan: Plan, *, n_servers: int) -> bool:
    """Whether each step leaves enough servers with the baseline."""
    treated = (n_candidates(step.share, n_servers=n_servers, least_servers=plan.least_servers) for step in plan.steps)
    return all(n_servers - n >= max(LEAST_BASELINE, plan.least_servers) for n in treated)


def get(session: Session, *, cca: str, name: str, rollout_id: int) -> RolloutRow:
    """Return a roll-out of the channel. Raises RolloutNotFoundError."""
    row = repository.find(session, rollout_id)
    if row is None or (row.channel.cca, row.channel.name) != (cca, name):
        raise RolloutNotFoundError(
            f"expected the number of a roll-out of {cca}/{name}, got {rollout_id}; list the channel's roll-outs"
        )
    return row


def record_of(
    session: Session, *, cca: str, name: str, rollout_id: int, before_id: int | None, limit: int
) -> Sequence[RolloutEventRow]:
    """Return entries of a roll-out's record, newest first. Raises RolloutNotFoundError."""
    get(session, cca=cca, name=name, rollout_id=rollout_id)
    return repository.events(session, rollout_id, before_id=before_id, limit=limit)


def request(session: Session, change: Change, rollout_id: int, action: RolloutAction, *, note: str) -> RolloutRow:
    """Pause, resume, abort or promote a roll-out, as someone requested.

    Raises:
        RolloutNotFoundError: the channel has no such roll-out.
        RolloutStateError: the roll-out has ended, or is paused already, or is not paused.
        EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    get(session, cca=change.cca, name=change.name, rollout_id=rollout_id)
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    row = get(session, cca=change.cca, name=change.name, rollout_id=rollout_id)
    allowed = {"pause": ("running",), "resume": ("paused",)}.get(action, ("running", "paused"))
    if row.state not in allowed:
        raise RolloutStateError(
            f"roll-out {row.id}: expected it to be {' or '.join(allowed)} for {action}, it is {row.state}"
        )
    reason = note or f"{change.by.name} requested it."
    if action in {"abort", "promote"}:
        moves.end_rollout(session, row, change, action=action, reasons=[reason], note=note)
    else:
        _set_state(session, channel, row, change, action=action, reasons=[reason])
    session.flush()
    return row


def _set_state(
    session: Session,
    channel: ChannelRow,
    row: RolloutRow,
    change: Change,
    *,
    action: RolloutAction,
    reasons: Sequence[str],
    decision: Decision | None = None,
) -> None:
    now = change.clock()
    if row.block is not None:
        turn = switchback.begin_pause if action == "pause" else switchback.begin_block
        turn(session, channel, row, change)
    row.state = "paused" if action == "pause" else "running"
    if action == "resume":
        row.limit_from_at = now
    evidence = None if decision is None else decision.evidence
    repository.note(session, row, at=now, actor=change.by.name, action=action, reasons=reasons, evidence=evidence)
    target = f"channel {channel.cca}/{channel.name}"
    audit.record(session, by=change.by, action=f"{action}-rollout", target=target, now=now, rollout=row.id,
                 reasons=list(reasons))  # fmt: skip


def judge(session: Session, rollout_id: int, *, now: datetime) -> Judged | None:
    """Decide how a roll-out goes on, without a change. Return None if it has ended."""
    row = repository.find(session, rollout_id)
    if row is None or row.ended_at is not None:
        return None
    plan, clock = plan_of(row), clock_of(row, now=now)
    is_due = is_look_due(plan, clock)
    if plan.switchback is None:
        decision = decide(_units(session, row, now=now, with_sums=is_due), plan, clock)
    else:
        units = switchback.block_units(session, row, now=now) if is_due else []
        decision = decide(units, plan, clock, silent_s=_silent_s(session, row, now=now))
    return Judged(row.id, row.channel.cca, row.channel.name, row.state, row.step, row.n_looks, decision)


def _units(session: Session, row: RolloutRow, *, now: datetime, with_sums: bool) -> list[Unit]:
    reported = _silent_s(session, row, now=now)
    totals = _since_the_hour(session, row) if with_sums else {}
    treated = n_treated(row)
    units = []
    for server, silent_s in zip(repository.servers(session, row.id), reported, strict=True):
        arm: Arm = "candidate" if server.place < treated else "baseline"
        serial = row.candidate_serial if arm == "candidate" else row.baseline_serial
        if not with_sums:
            units.append(Unit(server.agent_id, arm, Sums(), silent_s=silent_s))
            continue
        before = repository.of_text(server.before)
        since = totals.get((server.agent, serial), Sums()) - repository.of_text(server.begun)
        had_flows = before.delay_samples > 0
        units.append(Unit(server.agent_id, arm, since, before=before if had_flows else None, silent_s=silent_s))
    return units


def _silent_s(session: Session, row: RolloutRow, *, now: datetime) -> list[float | None]:
    """Return the seconds since the last report of each server in its place; None for one that was removed."""
    reported = repository.last_reports(session, row.id)
    ats = [reported.get(server.agent) for server in repository.servers(session, row.id)]
    return [None if at is None else (now - at).total_seconds() for at in ats]


def apply(session: Session, judged: Judged, change: Change) -> int | None:
    """Do what was decided, unless the roll-out has changed since. Return the channel's revision if that has changed.

    Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    decision = judged.decision
    if decision.action == "continue" and not decision.is_look:
        return None
    channel = channels.channel_for_move(session, cca=change.cca, name=change.name)
    row = repository.find(session, judged.rollout_id)
    if row is None or (row.state, row.step, row.n_looks) != (judged.state, judged.step, judged.n_looks):
        return None
    now = change.clock()
    before = channel.revision
    if decision.is_look:
        row.n_looks, row.last_look_at = row.n_looks + 1, now
    if decision.action in {"abort", "promote"}:
        moves.end_rollout(
            session, row, change, action=decision.action, reasons=decision.reasons, note="", evidence=decision.evidence
        )
    elif decision.action == "pause":
        _set_state(session, channel, row, change, action="pause", reasons=decision.reasons, decision=decision)
    else:
        repository.note(session, row, at=now, actor=change.by.name, action=decision.action, reasons=decision.reasons,
                        evidence=decision.evidence)  # fmt: skip
    if decision.action == "advance":
        _advance(session, channel, row, change, now=now)
    session.flush()
    return channel.revision if channel.revision != before else None


def _advance(session: Session, channel: ChannelRow, row: RolloutRow, change: Change, *, now: datetime) -> None:
    row.step += 1
    row.step_began_at = row.limit_from_at = now
    row.last_look_at = None
    channel.revision += 1
    begun, treated = _since_the_hour(session, row), n_treated(row)
    for server in repository.servers(session, row.id):
        serial = row.candidate_serial if server.place < treated else row.baseline_serial
        server.begun = repository.as_text(begun.get((server.agent, serial), Sums()))
    target = f"channel {channel.cca}/{channel.name}"
    audit.record(session, by=change.by, action="advance-rollout", target=target, now=now, rollout=row.id,
                 step=row.step + 1, servers=treated)  # fmt: skip


def _since_the_hour(session: Session, row: RolloutRow) -> dict[tuple[int, int], Sums]:
    """Return the sums of both arms' tables since the beginning of the hour in which the step began."""
    return repository.sums_of_agents(
        session, channel_id=row.channel_id, hours=(hour_of(row.step_began_at), repository.AS_OF_NOW),
        serials=(row.baseline_serial, row.candidate_serial),
    )  # fmt: skip


def by_agent(found: Mapping[tuple[int, int], Sums]) -> dict[int, Sums]:
    """Add up the sums of each agent over its serials."""
    totals: dict[int, Sums] = {}
    for (agent, _), sums in found.items():
        totals[agent] = totals.get(agent, Sums()) + sums
    return totals
