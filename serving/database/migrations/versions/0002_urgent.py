# SPDX-License-Identifier: MIT
"""Deployments get the mark `urgent`. Existing deployments are not urgent.

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. SQLite also adds it without copying the table, so the table's checks and indexes stay."""
    op.add_column("deployments", sa.Column("urgent", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Drop the column. The marks are lost."""
    op.drop_column("deployments", "urgent")
