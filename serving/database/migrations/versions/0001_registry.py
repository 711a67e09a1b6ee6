# SPDX-License-Identifier: MIT
"""The registry's first schema: ensembles, channels, deployments, agents.

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
        sa.CheckConstraint("id = 1", name=op.f("ck_registry_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registry")),
    )
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
    _create_channels()
    _create_agents()


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
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("restores_serial", sa.BigInteger(), nullable=True),
        sa.Column("deployed_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint("hold_back_permille BETWEEN 0 AND 1000", name=op.f("ck_deployments_hold_back_share")),
        sa.CheckConstraint("serial >= 1", name=op.f("ck_deployments_serial_from_one")),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_deployments_channel_id")),
        sa.ForeignKeyConstraint(["digest"], ["ensembles.digest"], name=op.f("fk_deployments_digest")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
        sa.UniqueConstraint("channel_id", "serial", name=op.f("uq_deployments_channel_id_serial")),
    )
    op.create_index(op.f("ix_deployments_digest"), "deployments", ["digest"])


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
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("agent_id", "cca", name=op.f("uq_agents_agent_id_cca")),
    )


def downgrade() -> None:
    """Drop every table."""
    for name in ("agents", "deployments", "channels", "ensembles", "registry"):
        op.drop_table(name)
