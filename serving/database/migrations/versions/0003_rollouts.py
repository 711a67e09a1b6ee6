# SPDX-License-Identifier: MIT
"""Roll-outs. serving/database/rollout_models.py describes the tables.

Revision: 0003, after 0002
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    """Add the tables, and what a channel offers beside its last assigned serial."""
    with op.batch_alter_table("channels") as channels:
        for name in ("current_serial", "revision"):
            channels.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.execute("UPDATE channels SET current_serial = serial, revision = serial")
    _create_rollouts()
    _create_servers_and_events()
    op.create_table(
        "leases",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("owner", sa.String(63), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def _create_rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("channel_id", BigId, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("baseline_serial", sa.BigInteger(), nullable=False),
        sa.Column("candidate_serial", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("n_servers", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("step_began_at", UtcDateTime(), nullable=False),
        sa.Column("limit_from_at", UtcDateTime(), nullable=False),
        sa.Column("n_looks", sa.Integer(), nullable=False),
        sa.Column("last_look_at", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_rollouts_channel_id")),
    )
    op.create_index(
        op.f("ix_rollouts_channel_id"), "rollouts", ["channel_id"], unique=True, sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )  # fmt: skip
    op.create_index(op.f("ix_rollouts_channel_id_id"), "rollouts", ["channel_id", "id"])


def _create_servers_and_events() -> None:
    op.create_table(
        "rollout_servers",
        sa.Column("rollout_id", BigId, nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("begun", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", "place", name=op.f("pk_rollout_servers")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_servers_rollout_id")),
    )
    op.create_table(
        "rollout_events",
        sa.Column("id", BigId, nullable=False),
        sa.Column("rollout_id", BigId, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(128), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_events")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_events_rollout_id")),
    )
    op.create_index(op.f("ix_rollout_events_rollout_id_id"), "rollout_events", ["rollout_id", "id"])
