# SPDX-License-Identifier: MIT
"""The schema of 0.1.0. serving/database/models.py describes the tables.

Revision: 0001
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "registry",
        sa.Column("id", BigId, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("access_version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_registry_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registry")),
    )
    _create_ensembles()
    _create_channels()
    _create_agents()
    _create_access()


def _create_ensembles() -> None:
    op.create_table(
        "ensembles",
        sa.Column("id", BigId, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("cca", sa.String(63), nullable=False),
        sa.Column("n_states", sa.Integer(), nullable=False),
        sa.Column("n_classes", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ensembles")),
        sa.UniqueConstraint("digest", name=op.f("uq_ensembles_digest")),
    )
    op.create_index(op.f("ix_ensembles_cca"), "ensembles", ["cca"])
    op.create_table(
        "ensemble_signatures",
        sa.Column("id", BigId, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ensemble_signatures")),
        sa.UniqueConstraint("digest", "key_id", name=op.f("uq_ensemble_signatures_digest_key_id")),
        sa.ForeignKeyConstraint(["digest"], ["ensembles.digest"], name=op.f("fk_ensemble_signatures_digest")),
    )
    op.create_table(
        "roots",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_roots")),
    )


def _create_channels() -> None:
    op.create_table(
        "channels",
        sa.Column("id", BigId, nullable=False),
        sa.Column("cca", sa.String(63), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("serial >= 0", name=op.f("ck_channels_serial_grows")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channels")),
        sa.UniqueConstraint("cca", "name", name=op.f("uq_channels_cca_name")),
    )
    op.create_table(
        "deployments",
        sa.Column("id", BigId, nullable=False),
        sa.Column("channel_id", BigId, nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("hold_back_permille", sa.Integer(), nullable=False),
        sa.Column("urgent", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("restores_serial", sa.BigInteger(), nullable=True),
        sa.Column("deployed_at", UtcDateTime(), nullable=False),
        sa.Column("idempotency_key", sa.String(128), nullable=True),
        sa.Column("request_digest", sa.String(71), nullable=True),
        sa.CheckConstraint("hold_back_permille BETWEEN 0 AND 1000", name=op.f("ck_deployments_hold_back_share")),
        sa.CheckConstraint("serial >= 1", name=op.f("ck_deployments_serial_from_one")),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_deployments_channel_id")),
        sa.ForeignKeyConstraint(["digest"], ["ensembles.digest"], name=op.f("fk_deployments_digest")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
        sa.UniqueConstraint("channel_id", "serial", name=op.f("uq_deployments_channel_id_serial")),
    )
    op.create_index(op.f("ix_deployments_digest"), "deployments", ["digest"])
    key = ["channel_id", "idempotency_key"]
    op.create_index(op.f("ix_deployments_channel_id_idempotency_key"), "deployments", key, unique=True)


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", BigId, nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("cca", sa.String(63), nullable=False),
        sa.Column("channel", sa.String(63), nullable=False),
        sa.Column("state", sa.String(63), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("offered_digest", sa.String(71), nullable=True),
        sa.Column("offered_serial", sa.BigInteger(), nullable=False),
        sa.Column("effective_digest", sa.String(71), nullable=True),
        sa.Column("effective_serial", sa.BigInteger(), nullable=False),
        sa.Column("kernel_version", sa.String(256), nullable=True),
        sa.Column("module_version", sa.String(256), nullable=True),
        sa.Column("agent_version", sa.String(256), nullable=True),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=True),
        sa.Column("previous_run_id", sa.String(64), nullable=True),
        sa.Column("run_changed_at", UtcDateTime(), nullable=True),
        sa.Column("id_shared_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("agent_id", "cca", name=op.f("uq_agents_agent_id_cca")),
    )


def _create_access() -> None:
    op.create_table(
        "principals",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
        sa.UniqueConstraint("name", name=op.f("uq_principals_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", BigId, nullable=False),
        sa.Column("public_id", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("principal_id", BigId, nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("ccas", sa.Text(), nullable=True),
        sa.Column("channels", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.String(128), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_tokens_principal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("public_id", name=op.f("uq_tokens_public_id")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_index(op.f("ix_tokens_principal_id"), "tokens", ["principal_id"])
    op.create_index(op.f("ix_tokens_version"), "tokens", ["version"])
    op.create_table(
        "audit",
        sa.Column("id", BigId, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(128), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("action", sa.String(63), nullable=False),
        sa.Column("target", sa.String(256), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    for column in ("actor", "action", "target"):
        op.create_index(op.f(f"ix_audit_{column}"), "audit", [column])
