# SPDX-License-Identifier: MIT
"""The newest advice of each channel.

Revision: 0011
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of advices."""
    op.create_table(
        "advices",
        sa.Column("channel_id", BigId, autoincrement=False, nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("set_by", sa.String(128), nullable=False),
        sa.Column("set_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name=op.f("fk_advices_channel_id")),
        sa.PrimaryKeyConstraint("channel_id", name=op.f("pk_advices")),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("advices")
