# SPDX-License-Identifier: MIT
"""Files of observations.

Revision: 0010
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "observations",
        sa.Column("id", BigId, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("agent_id", sa.String(128), nullable=False),
        sa.Column("start_s", sa.Float(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
        sa.UniqueConstraint("digest", name=op.f("uq_observations_digest")),
    )
    for column in ("agent_id", "received_at"):
        op.create_index(op.f(f"ix_observations_{column}"), "observations", [column])
