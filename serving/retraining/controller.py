# SPDX-License-Identifier: MIT
"""Takes the steps of retrainings, in the background of every registry process.

    every `retraining_check_s`   take or renew the lease   the process that has it goes on; the others wait
                                 step                      each retraining that has not ended, in a transaction each
                                 propose                   one for each channel with a policy that has drifted

A process that dies keeps the lease for three rounds. Two processes that take the same step do no harm: each locks the
channel and reads the retraining again.
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
from serving.channels.watch import ChannelWatch
from serving.context import Context
from serving.drift.service import ChannelDrift
from serving.retraining import ACTOR, repository, service
from serving.rollouts.repository import take_lease

_LEASE_NAME = "retraining"
_LEASE_ROUNDS = 3

_log = logging.getLogger(__name__)


class RetrainingController(Background):
    """The steps of one registry's retrainings."""

    failure: ClassVar[str] = "retrainings stand still"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._owner = secrets.token_hex(8)

    @property
    def every_s(self) -> float:
        """As the setting says."""
        return self._context.settings.retraining_check_s

    async def round(self) -> None:
        """As Background.round."""
        context = self._context
        if not await context.read(repository.any_policy) or not await context.write(self._take_lease):
            return
        for number, cca, name in await context.read(repository.open_ones):
            try:
                await self._step(number, cca, name)
            except SQLAlchemyError:
                raise
            except Exception as error:
                # For example, a later release set the policy. Other retrainings go on.
                _log.warning("retraining %d: not looked at, which is tried again: %s", number, error)
        drift = context.part(ChannelDrift)
        for channel, digest, reasons in await context.read(service.drifted, drift, now=context.clock()):
            change = self._change(channel.cca, channel.name)
            await context.write(service.propose, change, digest=digest, reasons=reasons)

    async def _step(self, number: int, cca: str, name: str) -> None:
        context = self._context
        revision = await context.write(service.step, self._change(cca, name), number, settings=context.settings)
        if revision is not None:
            context.part(ChannelWatch).announce((cca, name), serial=revision)

    def _change(self, cca: str, name: str) -> Change:
        context = self._context
        return Change(
            registry=context.registry, cca=cca, name=name, by=local_caller(ACTOR), clock=context.clock, if_match=None
        )

    def _take_lease(self, session: Session) -> bool:
        now = self._context.clock()
        until = now + timedelta(seconds=_LEASE_ROUNDS * self.every_s)
        return take_lease(session, name=_LEASE_NAME, owner=self._owner, now=now, until=until)
