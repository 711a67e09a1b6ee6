# SPDX-License-Identifier: MIT
"""Database queries on channels and deployments."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session, contains_eager

from serving.access.grants import Grant
from serving.database import (
    ChannelRow,
    DeploymentRow,
    EnsembleRow,
    RolloutBlockRow,
    RolloutRow,
    insert_or_find,
    narrowed,
)


def _channel_for_update(session: Session, *, cca: str, name: str) -> ChannelRow | None:
    query = select(ChannelRow).where(ChannelRow.cca == cca, ChannelRow.name == name).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def channel_for_move(session: Session, *, cca: str, name: str) -> ChannelRow:
    """Return the channel's row, locked until the transaction ends. Insert the row if there is none."""
    new = ChannelRow(cca=cca, name=name, serial=0)
    return insert_or_find(session, new, find=lambda: _channel_for_update(session, cca=cca, name=name))[0]


def _currents() -> Select[DeploymentRow]:
    """Return a query for the current deployment of every channel, with the channel loaded."""
    return (
        select(DeploymentRow)
        .join(DeploymentRow.channel)
        .where(DeploymentRow.serial == ChannelRow.current_serial)
        .options(contains_eager(DeploymentRow.channel))
    )


def current(session: Session, *, cca: str, name: str) -> DeploymentRow | None:
    """Return the channel's current deployment, or None."""
    return session.scalar(_currents().where(ChannelRow.cca == cca, ChannelRow.name == name))


def current_with_document(session: Session, *, cca: str, name: str) -> tuple[DeploymentRow, str] | None:
    """Return the channel's current deployment and its ensemble's document, read by one query, or None."""
    query = (
        _currents()
        .where(ChannelRow.cca == cca, ChannelRow.name == name)
        .join(EnsembleRow, EnsembleRow.digest == DeploymentRow.digest)
        .add_columns(EnsembleRow.document)
    )
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def with_document(session: Session, *, channel_id: int, serial: int) -> tuple[DeploymentRow, str] | None:
    """Return a deployment of a channel and its ensemble's document, or None."""
    query = (
        select(DeploymentRow, EnsembleRow.document)
        .join(DeploymentRow.channel)
        .join(EnsembleRow, EnsembleRow.digest == DeploymentRow.digest)
        .where(DeploymentRow.channel_id == channel_id, DeploymentRow.serial == serial)
        .options(contains_eager(DeploymentRow.channel))
    )
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def deployment(session: Session, *, channel_id: int, serial: int) -> DeploymentRow | None:
    """Return the deployment of a channel with that serial, or None."""
    query = select(DeploymentRow).where(DeploymentRow.channel_id == channel_id, DeploymentRow.serial == serial)
    return session.scalar(query)


def deployment_of_key(session: Session, *, channel_id: int, key: str) -> DeploymentRow | None:
    """Return the deployment of a channel that was made with this idempotency key, or None."""
    query = select(DeploymentRow).where(DeploymentRow.channel_id == channel_id, DeploymentRow.idempotency_key == key)
    return session.scalar(query.join(DeploymentRow.channel).options(contains_eager(DeploymentRow.channel)))


def delete_deployments(session: Session, *, channel_id: int) -> None:
    """Delete all deployments of a channel. Its row stays, with the last serial."""
    session.execute(delete(DeploymentRow).where(DeploymentRow.channel_id == channel_id))


def is_first(session: Session, row: DeploymentRow) -> bool:
    """Whether the deployment made its channel, for the first time or after it was deleted."""
    return deployment(session, channel_id=row.channel_id, serial=row.serial - 1) is None


def latest_of_another_ensemble(
    session: Session, *, channel_id: int, before_serial: int, digest: str
) -> DeploymentRow | None:
    """Return the last deployment before that serial whose ensemble is not `digest`, or None.

    Candidates and blocks of roll-outs are left out. The promotion of a candidate is a deployment of its own.
    """
    candidates = select(RolloutRow.candidate_serial).where(RolloutRow.channel_id == channel_id)
    blocks = select(RolloutBlockRow.serial).join(RolloutRow, RolloutRow.id == RolloutBlockRow.rollout_id)
    query = (
        select(DeploymentRow)
        .where(
            DeploymentRow.channel_id == channel_id,
            DeploymentRow.serial < before_serial,
            DeploymentRow.digest != digest,
            DeploymentRow.serial.not_in(candidates),
            DeploymentRow.serial.not_in(blocks.where(RolloutRow.channel_id == channel_id)),
        )
        .order_by(DeploymentRow.serial.desc())
        .limit(1)
    )
    return session.scalar(query)


def list_page(
    session: Session, *, cca: str | None, after_id: int | None, limit: int, within: Grant
) -> Sequence[DeploymentRow]:
    """Return the current deployments of channels within the grant.

    The channels have an id above `after_id`. They are in the order of their ids.
    """
    query = _currents().where(ChannelRow.id > (after_id or 0)).order_by(ChannelRow.id).limit(limit)
    granted = ((ChannelRow.cca, within.ccas), (ChannelRow.name, within.channels))
    return session.scalars(narrowed(query, (ChannelRow.cca, cca), *granted)).all()


def history_page(
    session: Session, *, cca: str, name: str, before_serial: int | None, limit: int
) -> Sequence[DeploymentRow]:
    """Return the channel's deployments with a serial below `before_serial`, newest first."""
    query = (
        select(DeploymentRow)
        .join(DeploymentRow.channel)
        .where(ChannelRow.cca == cca, ChannelRow.name == name)
        .options(contains_eager(DeploymentRow.channel))
        .order_by(DeploymentRow.serial.desc())
        .limit(limit)
    )
    if before_serial is not None:
        query = query.where(DeploymentRow.serial < before_serial)
    return session.scalars(query).all()


def revision(session: Session, *, cca: str, name: str) -> int:
    """Return the revision of a channel that exists."""
    return session.scalars(select(ChannelRow.revision).where(ChannelRow.cca == cca, ChannelRow.name == name)).one()


def heads(session: Session) -> dict[tuple[str, str], int]:
    """Return the revision of every channel, by algorithm and name."""
    rows = session.execute(select(ChannelRow.cca, ChannelRow.name, ChannelRow.revision))
    return {(cca, name): revision for cca, name, revision in rows}
