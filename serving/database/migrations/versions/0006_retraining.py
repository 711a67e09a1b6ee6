# SPDX-License-Identifier: MIT
"""Retraining, and jobs that compare. serving/database/retraining_models.py describes the tables.

Revision: 0006
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    """Create the tables of policies and retrainings, and add what a job compares."""
    for name in ("compare", "shadow"):
        op.add_column("jobs", sa.Column(name, sa.Text(), nullable=True))
    op.create_table(
        "retraining_policies",
        sa.Column("channel_id", BigId, autoincrement=False, nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("set_by", sa.String(128), nullable=False),
        sa.Column("set_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("channel_id", name=op.f("pk_retraining_policies")),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_retraining_policies_channel_id")),
    )
    op.create_table(
        "retrainings",
        sa.Column("id", BigId, nullable=False),
        sa.Column("channel_id", BigId, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("baseline", sa.String(71), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("candidate", sa.String(71), nullable=True),
        sa.Column("shadow", sa.Text(), nullable=True),
        sa.Column("objections", sa.Text(), nullable=False),
        sa.Column("rollout_id", BigId, nullable=True),
        sa.Column("obstacle", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("started_by", sa.String(128), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_retrainings")),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_retrainings_channel_id")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_retrainings_rollout_id")),
    )
    op.create_index(
        op.f("ix_retrainings_channel_id"), "retrainings", ["channel_id"], unique=True, sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )  # fmt: skip
    op.create_index(op.f("ix_retrainings_channel_id_id"), "retrainings", ["channel_id", "id"])
