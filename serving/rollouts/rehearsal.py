# SPDX-License-Identifier: MIT
"""Judges a plan on past figures: the baseline against itself, with the servers and the traffic of the last two days.

Each step is judged once, as at its time limit. Its figures are those of the last day, and the figures before the
roll-out are those of the day before. A step that pauses here would pause for a candidate without any effect as well:
the fleet is too small, its figures spread too wide, or the margins are too narrow.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from serving.channels import service as moves
from serving.errors import RolloutImpossibleError
from serving.qos.schemas import hour_of
from serving.rollouts import repository
from serving.rollouts.assignment import n_candidates, order_of
from serving.rollouts.decision import Clock, decide
from serving.rollouts.plan import Plan
from serving.rollouts.schemas import RehearsedStep
from serving.rollouts.service import by_agent, require_possible
from serving.rollouts.statistics import Sums, Unit

_DAY = timedelta(days=1)


def rehearse(
    session: Session, *, cca: str, name: str, plan: Plan, now: datetime, kept_days: float
) -> list[RehearsedStep]:
    """Return how each step of the plan would end for a candidate without effect.

    Raises ChannelNotFoundError, RolloutImpossibleError.
    """
    channel = moves.current(session, cca=cca, name=name).channel
    servers = repository.servers_of(
        session, channel=channel, since=now - timedelta(seconds=plan.silent_s), label=plan.stratify_by
    )
    require_possible(plan, n_servers=len(servers), kept_days=kept_days)
    if plan.switchback is not None:
        raise RolloutImpossibleError(
            "plan: expected steps by servers for a dry run, got `switchback`; past figures have no blocks, so start "
            "it, or leave `switchback` out"
        )
    hours = [hour_of(now - days * _DAY) for days in (2, 1)] + [hour_of(now) + 1]
    before, since = (
        by_agent(repository.sums_of_agents(session, channel_id=channel.id, hours=(hours[at], hours[at + 1])))
        for at in (0, 1)
    )
    order = order_of("rehearsal", {agent_id: stratum for agent_id, (_, stratum) in servers.items()})
    found = []
    for number, step in enumerate(plan.steps):
        treated = n_candidates(step.share, n_servers=len(order), least_servers=plan.least_servers)
        units = [
            Unit(
                agent_id,
                "candidate" if place < treated else "baseline",
                since.get(servers[agent_id][0], Sums()),
                before.get(servers[agent_id][0]),
            )
            for place, agent_id in enumerate(order)
        ]
        n_looks = (number + 1) * plan.looks_per_step - 1
        decision = decide(units, plan, Clock(step.most_s, number, 0.0, 0.0, n_looks))
        found.append(
            RehearsedStep(
                step=number + 1, share=step.share, n_candidates=treated, action=decision.action,
                reasons=list(decision.reasons), evidence=decision.evidence,
            )
        )  # fmt: skip
    return found
