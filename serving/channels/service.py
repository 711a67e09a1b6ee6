# SPDX-License-Identifier: MIT
"""Rules for channels.

- Every move of a channel, including a roll-back, is a deployment with the next serial.
- Moves of one channel are serialized: each locks the channel's row until it is committed.
- A roll-back restores the last earlier deployment with a different ensemble, including its hold-back share.
- A roll-back does not restore the mark `urgent`. By default a roll-back is urgent and any other move is not; the
  request can override this.
- A second roll-back in a row goes further back. It never returns to the deployment that the first one replaced.
- A request that is repeated with its idempotency key makes no second deployment.
- Deleting a channel deletes its deployments and takes the next serial. A channel that is made again under the name goes
  on from there, because agents refuse serials that are older than those they have seen. Its history begins anew.
- A channel points only to a published ensemble of its own algorithm. If the registry has a root document, enough
  publishers must have signed the ensemble. This is also a condition of a roll-back.
- While a roll-out of the channel has not ended, no other change is accepted, except for an urgent roll-back. It ends
  the roll-out and points the whole channel back to the baseline.
- Every move and deletion leaves a row in the audit log, in the same transaction. The blocks of a roll-out by switchback
  stand in the roll-out's record instead, and its start and its end are in the audit log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy.orm import Session

from serving.access import audit
from serving.access.grants import Caller
from serving.channels import repository
from serving.channels.schemas import ChannelMove, Idempotency, RollBack
from serving.database import ChannelRow, DeploymentRow, RolloutRow
from serving.ensembles import repository as ensembles
from serving.ensembles.signing import require_signed
from serving.errors import (
    ChannelNotFoundError,
    EnsembleNotFoundError,
    NothingToRollBackError,
    RolloutRunningError,
    SerialMismatchError,
    WrongAlgorithmError,
)
from serving.http.etags import matches_strongly, matches_weakly, names_a_tag, quoted
from serving.rollouts import repository as rollouts

DeploymentKind = Literal["move", "candidate", "block"]
_ROLLED_BACK = "The channel was rolled back urgently."
# The part of an entity tag that names the signatures.
_SIGNATURES_TAG = re.compile(r'(?<=:sha256:[0-9a-f]{64}):[0-9a-f]+(?=")')


def etag_of(row: DeploymentRow, *, registry: str, signatures_tag: str = "") -> str:
    """Return the strong entity tag of a channel whose current deployment is `row`.

    The answer to agents changes with its signatures, too. Its tag has a further part, `signatures_tag`. The condition
    of a move is about the deployment alone and ignores this part.
    """
    return quoted(f"{registry}:{row.serial}:{row.digest}" + (f":{signatures_tag}" if signatures_tag else ""))


@dataclass(frozen=True, kw_only=True)
class Change:
    """A request to move or delete a channel: who changes which one, and under which conditions.

    clock: read while the channel is locked, so that the times of its deployments are in the order of the serials.
    if_match, if_none_match: the headers of the request. idempotency: the key of the request, with its content.
    """

    registry: str
    cca: str
    name: str
    by: Caller
    clock: Callable[[], datetime]
    if_match: str | None
    if_none_match: str | None = None
    idempotency: Idempotency | None = None


def move(session: Session, change: Change, wanted: ChannelMove) -> tuple[DeploymentRow, bool]:
    """Point the channel to an ensemble. Return the new deployment, and whether it made the channel.

    Raises:
        EnsembleNotFoundError: the ensemble is not published.
        WrongAlgorithmError: the ensemble belongs to another algorithm than the channel.
        SerialMismatchError: `if_match` does not name the current deployment, or `if_none_match` names it.
        RolloutRunningError: the channel has a roll-out that has not ended.
        IdempotencyKeyReusedError: another request had the same idempotency key.
        EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    require_ensemble(session, wanted.digest, cca=change.cca)
    channel = repository.channel_for_move(session, cca=change.cca, name=change.name)
    made = made_before(session, channel, change.idempotency)
    if made is None:
        require_match(session, channel, change)
        _require_no_match(session, channel, change)
        _require_no_rollout(session, channel)
        made = deploy(
            session,
            channel,
            change,
            digest=wanted.digest,
            hold_back_permille=wanted.hold_back_permille,
            urgent=wanted.urgent,
            note=wanted.note,
        )
    return made, repository.is_first(session, made)


def roll_back(session: Session, change: Change, wanted: RollBack) -> DeploymentRow:
    """Point the channel back to its previous ensemble, and return the new deployment.

    Raises:
        ChannelNotFoundError: the channel has no deployment.
        NothingToRollBackError: there is no earlier deployment with a different ensemble.
        RolloutRunningError: the channel has a roll-out that has not ended, and the roll-back is not urgent.
        SerialMismatchError: `if_match` does not name the current deployment.
        IdempotencyKeyReusedError: another request had the same idempotency key.
        EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    current(session, cca=change.cca, name=change.name)
    channel = repository.channel_for_move(session, cca=change.cca, name=change.name)
    made = made_before(session, channel, change.idempotency)
    if made is not None:
        return made
    require_match(session, channel, change)
    rollout = rollouts.find_open(session, channel_id=channel.id)
    if rollout is not None:
        if not wanted.urgent:
            raise _rollout_running(channel, rollout)
        return end_rollout(session, rollout, change, action="abort", reasons=[_ROLLED_BACK], note=wanted.note)
    target = roll_back_target(session, channel, deployed_by(session, channel))
    return deploy(
        session,
        channel,
        change,
        digest=target.digest,
        hold_back_permille=target.hold_back_permille,
        urgent=wanted.urgent,
        note=wanted.note,
        restores=target.restores_serial or target.serial,
    )


def roll_back_target(session: Session, channel: ChannelRow, deployed: DeploymentRow) -> DeploymentRow:
    """Return the deployment that a roll-back of a channel restores. deployed: its current one.

    Raises NothingToRollBackError.
    """
    target = repository.latest_of_another_ensemble(
        session,
        channel_id=channel.id,
        before_serial=deployed.restores_serial or deployed.serial,
        digest=deployed.digest,
    )
    if target is None:
        raise NothingToRollBackError(
            f"expected another ensemble on {channel.cca}/{channel.name} before serial {deployed.serial}, there was "
            "none; move the channel to an ensemble instead"
        )
    return target


def delete(session: Session, change: Change) -> int:
    """Delete the channel with its deployments, and return its new revision.

    Raises:
        ChannelNotFoundError: the channel has no deployment.
        SerialMismatchError: `if_match` does not name the current deployment.
        RolloutRunningError: the channel has a roll-out that has not ended.
    """
    current(session, cca=change.cca, name=change.name)
    channel = repository.channel_for_move(session, cca=change.cca, name=change.name)
    require_match(session, channel, change)
    _require_no_rollout(session, channel)
    row = deployed_by(session, channel)
    channel.serial += 1
    channel.current_serial = channel.serial
    channel.revision += 1
    details = {"serial": channel.serial, "digest": row.digest}
    _record(session, channel, change, now=change.clock(), action="delete-channel", **details)
    repository.delete_deployments(session, channel_id=channel.id)
    return channel.revision


def end_rollout(
    session: Session,
    rollout: RolloutRow,
    change: Change,
    *,
    action: Literal["abort", "promote"],
    reasons: Sequence[str],
    note: str,
    evidence: Mapping[str, Any] | None = None,
) -> DeploymentRow:
    """Point the whole channel to the baseline, which is urgent, or to the candidate. The channel must be locked.

    Return the new deployment. Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    channel = repository.channel_for_move(session, cca=change.cca, name=change.name)
    is_abort = action == "abort"
    serial = rollout.baseline_serial if is_abort else rollout.candidate_serial
    source = repository.deployment(session, channel_id=channel.id, serial=serial)
    assert source is not None  # noqa: S101 - a channel with a roll-out is not deleted
    now = change.clock()
    rollout.state, rollout.ended_at = ("aborted" if is_abort else "promoted"), now
    rollouts.note(session, rollout, at=now, actor=change.by.name, action=action, reasons=reasons, evidence=evidence)
    _record(session, channel, change, now=now, action=f"{action}-rollout", rollout=rollout.id, reasons=list(reasons))
    return deploy(
        session,
        channel,
        change,
        digest=source.digest,
        hold_back_permille=source.hold_back_permille,
        urgent=is_abort,
        note=note or f"roll-out {rollout.id}: {rollout.state}",
        restores=(source.restores_serial or source.serial) if is_abort else None,
    )


def require_ensemble(session: Session, digest: str, *, cca: str) -> None:
    """Raise EnsembleNotFoundError or WrongAlgorithmError unless it is a published ensemble of the algorithm."""
    ensemble = ensembles.find(session, digest)
    if ensemble is None:
        raise EnsembleNotFoundError(f"expected the digest of a published ensemble, got {digest}; publish it first")
    if ensemble.cca != cca:
        raise WrongAlgorithmError(f"expected an ensemble of {cca}, got {digest} of {ensemble.cca}")


def current(session: Session, *, cca: str, name: str) -> DeploymentRow:
    """Return the channel's current deployment. Raises ChannelNotFoundError."""
    row = repository.current(session, cca=cca, name=name)
    if row is None:
        raise _no_channel(cca, name)
    return row


def current_with_document(session: Session, *, cca: str, name: str) -> tuple[DeploymentRow, str]:
    """Return the channel's current deployment and its ensemble's document. Raises ChannelNotFoundError."""
    found = repository.current_with_document(session, cca=cca, name=name)
    if found is None:
        raise _no_channel(cca, name)
    return found


def history(session: Session, *, cca: str, name: str, before_serial: int | None, limit: int) -> Sequence[DeploymentRow]:
    """Return the channel's deployments with a serial below `before_serial`, newest first.

    Raises ChannelNotFoundError.
    """
    current(session, cca=cca, name=name)
    return repository.history_page(session, cca=cca, name=name, before_serial=before_serial, limit=limit)


def made_before(session: Session, channel: ChannelRow, idempotency: Idempotency | None) -> DeploymentRow | None:
    """Return the deployment that the same request made before, or None. The channel must be locked."""
    if idempotency is None:
        return None
    row = repository.deployment_of_key(session, channel_id=channel.id, key=idempotency.key)
    if row is not None:
        idempotency.require_same_request(row.request_digest, of=f"serial {row.serial}")
    return row


def _no_channel(cca: str, name: str) -> ChannelNotFoundError:
    return ChannelNotFoundError(
        f"expected the name of a channel, got {cca}/{name}, which does not exist; correct the name, or make the "
        "channel by pointing it to an ensemble"
    )


def deployed_by(session: Session, channel: ChannelRow) -> DeploymentRow:
    """Return the current deployment of a channel. Raises ChannelNotFoundError."""
    row = repository.deployment(session, channel_id=channel.id, serial=channel.current_serial)
    if row is None:
        raise _no_channel(channel.cca, channel.name)
    return row


def require_match(session: Session, channel: ChannelRow, change: Change) -> None:
    """Raise SerialMismatchError if `if_match` does not name the current deployment. The channel must be locked."""
    if_match = change.if_match
    if if_match is None:
        return
    deployed = repository.deployment(session, channel_id=channel.id, serial=channel.current_serial)
    serial = 0 if deployed is None else deployed.serial
    accepted = {quoted(str(serial))}
    if deployed is not None:
        accepted.add(etag_of(deployed, registry=change.registry))
        if if_match.strip() == "*":
            return
    if if_match.strip() != "*" and not names_a_tag(if_match):
        raise SerialMismatchError(f'If-Match: expected an ETag or "SERIAL", quotes included, got {if_match}')
    if not matches_strongly(_of_deployment(if_match), frozenset(accepted)):
        raise SerialMismatchError(
            f"{channel.cca}/{channel.name}: expected {if_match} to be current, it stands at serial {serial}; "
            "look at it again before you change it"
        )


def _of_deployment(header: str) -> str:
    """Return an If-Match or If-None-Match header whose tags have no part for the signatures."""
    return _SIGNATURES_TAG.sub("", header)


def _require_no_match(session: Session, channel: ChannelRow, change: Change) -> None:
    deployed = repository.deployment(session, channel_id=channel.id, serial=channel.current_serial)
    if deployed is None or change.if_none_match is None:
        return
    if matches_weakly(_of_deployment(change.if_none_match), etag_of(deployed, registry=change.registry)):
        raise SerialMismatchError(
            f"{channel.cca}/{channel.name}: expected {change.if_none_match} not to be current, it stands at serial "
            f"{channel.current_serial}; name what it stands at by If-Match to move it"
        )


def deploy(
    session: Session,
    channel: ChannelRow,
    change: Change,
    *,
    digest: str,
    hold_back_permille: int,
    urgent: bool,
    note: str,
    restores: int | None = None,
    kind: DeploymentKind = "move",
) -> DeploymentRow:
    """Add a deployment with the next serial. The channel must be locked.

    kind: with `candidate` the channel's current deployment stays, and servers in the candidate's arm of a roll-out get
    this one. A `block` of a roll-out is neither in the audit log nor what a repeated request made.
    Raises EnsembleUnsignedError, RootExpiredError: see `require_signed`.
    """
    now = change.clock()
    require_signed(session, cca=change.cca, digest=digest, now=now)
    channel.serial += 1
    channel.revision += 1
    if kind != "candidate":
        channel.current_serial = channel.serial
    said = {
        "serial": channel.serial,
        "digest": digest,
        "hold_back_permille": hold_back_permille,
        "urgent": urgent,
        "note": note,
        "restores_serial": restores,
    }
    idempotency = None if kind == "block" else change.idempotency
    row = DeploymentRow(
        channel=channel,
        deployed_at=now,
        idempotency_key=None if idempotency is None else idempotency.key,
        request_digest=None if idempotency is None else idempotency.request_digest,
        **said,
    )
    session.add(row)
    if kind != "block":
        action = "start-rollout" if kind == "candidate" else "move" if restores is None else "roll-back"
        _record(session, channel, change, now=now, action=action, **said)
    session.flush()
    return row


def _require_no_rollout(session: Session, channel: ChannelRow) -> None:
    rollout = rollouts.find_open(session, channel_id=channel.id)
    if rollout is not None:
        raise _rollout_running(channel, rollout)


def _rollout_running(channel: ChannelRow, rollout: RolloutRow) -> RolloutRunningError:
    return RolloutRunningError(
        f"{channel.cca}/{channel.name}: expected no roll-out under way, roll-out {rollout.id} is {rollout.state}; "
        "abort or promote it first, or roll the channel back urgently, which aborts it"
    )


def _record(
    session: Session, channel: ChannelRow, change: Change, *, now: datetime, action: str, **details: object
) -> None:
    target = f"channel {channel.cca}/{channel.name}"
    audit.record(session, by=change.by, action=action, target=target, now=now, **details)
