# SPDX-License-Identifier: MIT
"""The registry's tables.

    registry             one row: the registry's name, which every deployment of this database has
    ensembles            immutable documents, by digest
    ensemble_signatures  publishers' signatures of ensembles: (digest, key) -> envelope
    roots                every version of the root document, which names the keys of publishers and registry
    channels             the last assigned serial of each algorithm and channel name
    deployments          every move of every channel: (channel, serial) -> ensemble
    agents               the latest report of each agent and algorithm
    principals           who may use the API: people, agents and build systems
    tokens               the tokens of the principals, each as the SHA-256 of its text
    audit                one row for each change, with the principal who made it
    qos, qos_agents      sums of flows by hour (qos_models.py)
    rollouts, leases ... roll-outs of channels in steps (rollout_models.py)
    people, sessions ... people who log in to pages (people_models.py)

Rows of ensembles, their signatures, roots and channels are never deleted. They and deployments are never changed,
except for the numbers of a channel, of which `serial` and `revision` only grow. A serial is therefore never used twice,
even after `channels remove`, which deletes a channel's deployments with their idempotency keys. Rows of agents may be
deleted. Rows of the audit log are never changed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from serving.database.types import BigId, UtcDateTime

DIGEST_CHARS = 71
NAME_CHARS = 63
IDEMPOTENCY_KEY_CHARS = 128
KEY_ID_CHARS = 64
RUN_ID_CHARS = 64
PRINCIPAL_CHARS = 128
TOKEN_ID_CHARS = 32
ADDRESS_CHARS = 64


class Base(DeclarativeBase):
    """Base class of the tables. It gives each constraint a name, so that a later migration can change it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {datetime: UtcDateTime()}


class RegistryRow(Base):
    """The registry itself. The check constraint limits the table to one row.

    access_version: grows with each change of a token. The change itself has the new number (`TokenRow.version`).
    """

    __tablename__ = "registry"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(NAME_CHARS))
    created_at: Mapped[datetime]
    access_version: Mapped[int] = mapped_column(BigInteger, default=0)


class EnsembleRow(Base):
    """A published ensemble. `document` is its canonical JSON, including the digest."""

    __tablename__ = "ensembles"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_CHARS), unique=True)
    cca: Mapped[str] = mapped_column(String(NAME_CHARS), index=True)
    n_states: Mapped[int]
    n_classes: Mapped[int]
    size_bytes: Mapped[int]
    document: Mapped[str] = mapped_column(Text, deferred=True, deferred_raiseload=True)
    published_at: Mapped[datetime]


class EnsembleSignatureRow(Base):
    """A publisher's signature of an ensemble. `envelope` is a DSSE envelope as JSON, with this one signature."""

    __tablename__ = "ensemble_signatures"
    __table_args__ = (UniqueConstraint("digest", "key_id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_CHARS), ForeignKey(EnsembleRow.digest))
    key_id: Mapped[str] = mapped_column(String(KEY_ID_CHARS))
    envelope: Mapped[str] = mapped_column(Text)
    added_at: Mapped[datetime]


class RootRow(Base):
    """A version of the root document. `envelope` is its DSSE envelope as JSON."""

    __tablename__ = "roots"

    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    envelope: Mapped[str] = mapped_column(Text)
    added_at: Mapped[datetime]


class ChannelRow(Base):
    """A channel of one algorithm. `serial` is the last assigned serial; 0 before the first deployment.

    current_serial: the deployment of all servers that are not in the candidate's arm of a roll-out. By switchback it is
    that of the block.
    revision: grows with every change of what the channel offers to any server.
    """

    __tablename__ = "channels"
    __table_args__ = (UniqueConstraint("cca", "name"), CheckConstraint("serial >= 0", name="serial_grows"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    cca: Mapped[str] = mapped_column(String(NAME_CHARS))
    name: Mapped[str] = mapped_column(String(NAME_CHARS))
    serial: Mapped[int] = mapped_column(BigInteger)
    current_serial: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    revision: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")


class DeploymentRow(Base):
    """One move of a channel.

    restores_serial: the deployment that a roll-back restored; None for other moves.
    urgent: running flows apply the table at their next ACK or transmission.
    idempotency_key, request_digest: the key of the request that made the move, and the digest of the request's content;
    None without a key.
    """

    __tablename__ = "deployments"
    __table_args__ = (
        UniqueConstraint("channel_id", "serial"),
        CheckConstraint("serial >= 1", name="serial_from_one"),
        CheckConstraint("hold_back_permille BETWEEN 0 AND 1000", name="hold_back_share"),
        Index(None, "digest"),
        Index(None, "channel_id", "idempotency_key", unique=True),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    channel_id: Mapped[int] = mapped_column(BigId, ForeignKey(ChannelRow.id))
    serial: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(DIGEST_CHARS), ForeignKey(EnsembleRow.digest))
    hold_back_permille: Mapped[int]
    urgent: Mapped[bool]
    note: Mapped[str] = mapped_column(Text)
    restores_serial: Mapped[int | None] = mapped_column(BigInteger)
    deployed_at: Mapped[datetime]
    idempotency_key: Mapped[str | None] = mapped_column(String(IDEMPOTENCY_KEY_CHARS))
    request_digest: Mapped[str | None] = mapped_column(String(DIGEST_CHARS))

    channel: Mapped[ChannelRow] = relationship(lazy="raise")


class AgentRow(Base):
    """The latest report of an agent on one algorithm.

    run_id: the random word of the agent's run, from the last report that had one.
    previous_run_id, run_changed_at: the word that it replaced, and when; None before the first change.
    id_shared_at: when a report last came from the run that had been replaced shortly before; None if never.
    labels: as JSON.
    effective_since: when a report first named the table in force; None if it is unknown.
    sums_series, sums_sequence: the last delta of flows' sums that was added; None before the first one.
    """

    __tablename__ = "agents"
    # Sums are stored under the id, so that of a deleted row must not be used again.
    __table_args__ = (UniqueConstraint("agent_id", "cca"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    agent_id: Mapped[str] = mapped_column(String(128))
    cca: Mapped[str] = mapped_column(String(NAME_CHARS))
    channel: Mapped[str] = mapped_column(String(NAME_CHARS))
    state: Mapped[str] = mapped_column(String(NAME_CHARS))
    error: Mapped[str | None] = mapped_column(Text)
    offered_digest: Mapped[str | None] = mapped_column(String(DIGEST_CHARS))
    offered_serial: Mapped[int] = mapped_column(BigInteger)
    effective_digest: Mapped[str | None] = mapped_column(String(DIGEST_CHARS))
    effective_serial: Mapped[int] = mapped_column(BigInteger)
    kernel_version: Mapped[str | None] = mapped_column(String(256))
    module_version: Mapped[str | None] = mapped_column(String(256))
    agent_version: Mapped[str | None] = mapped_column(String(256))
    received_at: Mapped[datetime]
    run_id: Mapped[str | None] = mapped_column(String(RUN_ID_CHARS))
    previous_run_id: Mapped[str | None] = mapped_column(String(RUN_ID_CHARS))
    run_changed_at: Mapped[datetime | None]
    id_shared_at: Mapped[datetime | None]
    labels: Mapped[str] = mapped_column(Text, default="{}", server_default="{}")
    effective_since: Mapped[datetime | None]
    sums_series: Mapped[str | None] = mapped_column(String(RUN_ID_CHARS))
    sums_sequence: Mapped[int | None] = mapped_column(BigInteger)


class PrincipalRow(Base):
    """Someone who uses the API. A disabled principal has no token that is accepted, and gets no new one."""

    __tablename__ = "principals"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS), unique=True)
    kind: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]


class TokenRow(Base):
    """A token of a principal.

    public_id: the part of the text that names the token. digest: SHA-256 of the whole text, in hexadecimal digits.
    scopes, ccas, channels: words with one space between two; `ccas` and `channels` are None without such a limit.
    version: `RegistryRow.access_version` as of the last change of the row, except for `last_used_at`.
    """

    __tablename__ = "tokens"
    __table_args__ = (Index(None, "principal_id"), Index(None, "version"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    public_id: Mapped[str] = mapped_column(String(TOKEN_ID_CHARS), unique=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    principal_id: Mapped[int] = mapped_column(BigId, ForeignKey(PrincipalRow.id))
    scopes: Mapped[str] = mapped_column(Text)
    ccas: Mapped[str | None] = mapped_column(Text)
    channels: Mapped[str | None] = mapped_column(Text)
    agent_id: Mapped[str | None] = mapped_column(String(128))
    version: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]

    principal: Mapped[PrincipalRow] = relationship(lazy="raise")


class AuditRow(Base):
    """A change, written in its transaction. `token_id` is the public id of the token; None without accounts."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "actor"), Index(None, "action"), Index(None, "target"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(String(PRINCIPAL_CHARS))
    token_id: Mapped[str | None] = mapped_column(String(TOKEN_ID_CHARS))
    request_id: Mapped[str | None] = mapped_column(String(64))
    address: Mapped[str | None] = mapped_column(String(ADDRESS_CHARS))
    action: Mapped[str] = mapped_column(String(63))
    target: Mapped[str] = mapped_column(String(256))
    details: Mapped[str] = mapped_column(Text)
