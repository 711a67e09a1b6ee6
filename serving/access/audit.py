# SPDX-License-Identifier: MIT
"""Writes the audit log: one row for each change, in the transaction of the change.

    action              target             written by
    publish             ensemble DIGEST    ensembles/service.py
    move, roll-back     channel CCA/NAME   channels/service.py
    delete-channel      channel CCA/NAME   channels/service.py
    ACTION-rollout      channel CCA/NAME   rollouts/service.py, channels/service.py; start, advance, pause, resume,
                                           abort or promote
    ACTION-retraining   channel CCA/NAME   retraining/policies.py, retraining/service.py; set, remove, open, advance or
                                           end
    sign                ensemble DIGEST    ensembles/signing.py
    add-root            root VERSION       roots/service.py
    remove-agent        agent ID           agents/service.py
    submit-job          job ID             jobs/service.py
    cancel-job          job ID             jobs/service.py
    finish-job          job ID             jobs/service.py
    fail-job            job ID             jobs/service.py
    create-principal    principal NAME     access/service.py
    disable-principal   principal NAME     access/service.py
    enable-principal    principal NAME     access/service.py
    create-token        token ID           access/service.py
    revoke-token        token ID           access/service.py
    log-in, log-out     person NAME        people/service.py
    fail-log-in         person NAME, or    people/login.py; one row for many attempts, with their number
                        unknown person
    create-person, reset-person, set-role, change-password, end-sessions, add-passkey, rename-passkey, remove-passkey
                        person NAME        people/service.py

A request that changes nothing, because it repeats an earlier one, leaves no row. Details never contain a token's text.
"""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy.orm import Session

from serving.access.grants import Caller
from serving.database import ADDRESS_CHARS, AuditRow


def record(session: Session, *, by: Caller, action: str, target: str, now: datetime, **details: object) -> None:
    """Write that `by` changed `target`. The details must be values that JSON has."""
    session.add(
        AuditRow(
            at=now,
            actor=by.name,
            token_id=by.grant.token_id,
            request_id=by.request_id,
            # A proxy may name any text as its client's address.
            address=None if by.address is None else by.address[:ADDRESS_CHARS],
            action=action,
            target=target,
            details=json.dumps(details, sort_keys=True),
        )
    )
