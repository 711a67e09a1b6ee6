# SPDX-License-Identifier: MIT
"""Each move of a channel can be marked as urgent; the moves so far are not.

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. SQLite, too, adds it in place, so the table's checks and indexes stay."""
    op.add_column("deployments", sa.Column("urgent", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Drop the column, and with it the marks."""
    op.drop_column("deployments", "urgent")
