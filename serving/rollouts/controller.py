# SPDX-License-Identifier: MIT
"""Judges the roll-outs that have not ended, in the background of every registry process.

    every 5 s   take or renew the lease   the process that has it goes on; the others wait
                read the figures          of each roll-out, in a transaction for reads
                decide                    a pure function (decision.py)
                apply                     in a transaction that locks the channel, unless the roll-out has changed since

By switchback the process also notes the end of a block's wash-out and begins the next block (switchback.py). The next
round begins sooner than after 5 s if one of these is due by then.

A process that dies keeps the lease for at most 30 s. Two processes that both judge a roll-out, for example after a
pause of the machine, do no harm: the second one finds that the number of looks has changed, and drops its decision.
"""

from __future__ import annotations

import logging
import secrets
from datetime import timedelta
from typing import ClassVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from serving.access.grants import local_caller
from serving.background import Background
from serving.channels.service import Change
from serving.channels.watch import ChannelKey, ChannelWatch
from serving.context import Context
from serving.rollouts import repository, service, switchback
from serving.rollouts.plan import JUDGE

EVERY_S = 5.0
_SOONEST_S = 0.2
_LEASE = timedelta(seconds=30)
_LEASE_NAME = "rollouts"

_log = logging.getLogger(__name__)


class RolloutController(Background):
    """The judge of one registry's roll-outs."""

    failure: ClassVar[str] = "roll-outs are not judged"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._owner = secrets.token_hex(8)
        self._every_s = EVERY_S

    @property
    def every_s(self) -> float:
        """The time between two rounds."""
        return self._every_s

    async def round(self) -> None:
        """Judge each roll-out once, if no other process does. Raises SQLAlchemyError, ServingError."""
        self._every_s = EVERY_S
        open_ids = await self._context.read(repository.open_ids)
        if not open_ids or not await self._context.write(self._take_lease):
            return
        for rollout_id in open_ids:
            try:
                await self._judge(rollout_id)
                await self._take_turn(rollout_id)
            except SQLAlchemyError:
                raise
            except Exception as error:
                # For example, the root document has expired, or a later release began it. Other roll-outs go on.
                _log.warning("roll-out %d: not judged, which is tried again in %g s: %s", rollout_id, EVERY_S, error)

    async def _judge(self, rollout_id: int) -> None:
        context = self._context
        judged = await context.read(service.judge, rollout_id, now=context.clock())
        if judged is None or (judged.decision.action == "continue" and not judged.decision.is_look):
            return
        key: ChannelKey = (judged.cca, judged.channel)
        self._announce(key, await context.write(service.apply, judged, self._change_of(key)))

    async def _take_turn(self, rollout_id: int) -> None:
        context = self._context
        turn = await context.read(switchback.next_turn, rollout_id)
        if turn is not None and turn.at <= context.clock():
            key: ChannelKey = (turn.cca, turn.channel)
            self._announce(key, await context.write(switchback.take_turn, rollout_id, self._change_of(key)))
            turn = await context.read(switchback.next_turn, rollout_id)
        if turn is not None:
            due_s = (turn.at - context.clock()).total_seconds()
            self._every_s = min(self._every_s, max(_SOONEST_S, due_s))

    def _change_of(self, key: ChannelKey) -> Change:
        context = self._context
        return Change(
            registry=context.registry, cca=key[0], name=key[1], by=local_caller(JUDGE), clock=context.clock,
            if_match=None,
        )  # fmt: skip

    def _announce(self, key: ChannelKey, revision: int | None) -> None:
        if revision is not None:
            self._context.part(ChannelWatch).announce(key, serial=revision)

    def _take_lease(self, session: Session) -> bool:
        now = self._context.clock()
        return repository.take_lease(session, name=_LEASE_NAME, owner=self._owner, now=now, until=now + _LEASE)
