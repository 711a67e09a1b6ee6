# SPDX-License-Identifier: MIT
"""What a token or a person's role permits, and the caller of a request.

    scope     permits                                             limited by the token's
    publish   to publish ensembles                                ccas
    move      to move channels and to roll them back              ccas, channels
    roll-out  to control staged roll-outs, and to approve those   ccas, channels
              of retraining and to set its policies
    train     to submit training jobs, and to cancel own ones     ccas
              to start, approve and dismiss trainings anew        ccas, channels
    run-jobs  to run training jobs                                ccas
    report    to report the table in force in an agent's kernel,  agent_id
              and to upload observations of its connections
    read      to read                                             ccas, channels; agent_id for agents, sums of flows
                                                                  and observations
    admin     everything; such a token has no limits

An ensemble belongs to an algorithm and to no channel, so `channels` does not limit who reads or publishes it.

    role of a person   scopes, without limits
    viewer             read
    operator           read, publish, move, roll-out, train
    admin              admin
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

from serving.errors import NotAuthenticatedError, NotPermittedError

Scope = Literal["publish", "move", "roll-out", "train", "run-jobs", "report", "read", "admin"]
PrincipalKind = Literal["human", "agent", "ci"]
Role = Literal["viewer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ROLES: Final[Mapping[Role, frozenset[Scope]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "publish", "move", "roll-out", "train"}),
    "admin": frozenset({"admin"}),
}


@dataclass(slots=True, eq=False, weakref_slot=True)
class Grant:
    """What a token or a person's role permits. A limit that is None does not apply.

    session_id, role: the session and the role of a person who logged in; None for a token.
    row_id, token_id: the token's row, and the public id that names it; None for a caller without a token.
    expires_at: from this time on the token is not accepted; None for never.
    is_revoked: set when the token is revoked, so that requests that are still held notice it.
    is_used: set with each use, and cleared when the time of the last use is written.
    """

    principal: str
    scopes: frozenset[str]
    kind: str | None = None
    row_id: int | None = None
    token_id: str | None = None
    ccas: frozenset[str] | None = None
    channels: frozenset[str] | None = None
    agent_id: str | None = None
    expires_at: datetime | None = None
    session_id: int | None = None
    role: Role | None = None
    is_revoked: bool = field(default=False, repr=False)
    is_used: bool = field(default=False, repr=False)


@dataclass(slots=True, frozen=True)
class Caller:
    """Who sent a request, and how the audit log names the request."""

    grant: Grant
    request_id: str | None = None
    address: str | None = None

    @property
    def name(self) -> str:
        """The principal's name."""
        return self.grant.principal

    def require(
        self, scope: Scope, *, cca: str | None = None, channel: str | None = None, agent_id: str | None = None
    ) -> None:
        """Check that the token has the scope, for the algorithm, the channel and the agent that are given.

        Raises:
            NotPermittedError: the token does not permit this.
            NotAuthenticatedError: the token was revoked since the request arrived.
        """
        grant = self.grant
        if grant.is_revoked:
            raise NotAuthenticatedError("expected a token that is accepted until the answer, got one revoked meanwhile")
        if "admin" in grant.scopes:
            return
        if scope not in grant.scopes:
            if grant.role is not None:
                raise NotPermittedError(
                    f"expected a role that permits the scope {scope}, got {grant.role}; an administrator can change it"
                )
            self._refuse(f"the scope {scope}", f"the scopes {', '.join(sorted(grant.scopes))}")
        if cca is not None and grant.ccas is not None and cca not in grant.ccas:
            self._refuse(f"{scope} for the algorithm {cca}", f"one for {', '.join(sorted(grant.ccas))}")
        if channel is not None and grant.channels is not None and channel not in grant.channels:
            self._refuse(f"{scope} for the channel {channel}", f"one for {', '.join(sorted(grant.channels))}")
        if agent_id is not None and grant.agent_id is not None and agent_id != grant.agent_id:
            self._refuse(f"{scope} for the agent {agent_id}", f"one for {grant.agent_id}")

    def _refuse(self, expected: str, got: str) -> None:
        raise NotPermittedError(
            f"expected a token that permits {expected}, got {got}; ask an administrator for another "
            "(`ccatune tokens create`)"
        )


def local_caller(name: str) -> Caller:
    """Return a caller without a token who may do everything: of an open registry, or with access to the database."""
    return Caller(Grant(name, frozenset({"admin"})))
