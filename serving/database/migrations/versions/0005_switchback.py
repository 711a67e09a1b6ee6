# SPDX-License-Identifier: MIT
"""Labels of agents, and roll-outs by switchback. serving/database/rollout_models.py describes their blocks.

Revision: 0005, after 0004
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("agents", sa.Column("labels", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("rollouts", sa.Column("block", sa.Integer(), nullable=True))
    op.create_table(
        "rollout_blocks",
        sa.Column("rollout_id", BigId, nullable=False),
        sa.Column("serial", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block", sa.Integer(), nullable=True),
        sa.Column("arm", sa.String(16), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("counts_from", UtcDateTime(), nullable=True),
        sa.Column("washed_out", sa.Text(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("rollout_id", "serial", name=op.f("pk_rollout_blocks")),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_blocks_rollout_id")),
    )
