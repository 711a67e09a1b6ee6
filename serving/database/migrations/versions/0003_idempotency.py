# SPDX-License-Identifier: MIT
"""Deployments get the idempotency key of the request that made them. Existing deployments have none.

Revision: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INDEX = "ix_deployments_channel_id_idempotency_key"


def upgrade() -> None:
    """Add the columns and their index. SQLite adds them without copying the table."""
    op.add_column("deployments", sa.Column("idempotency_key", sa.String(128), nullable=True))
    op.add_column("deployments", sa.Column("request_digest", sa.String(71), nullable=True))
    op.create_index(_INDEX, "deployments", ["channel_id", "idempotency_key"], unique=True)


def downgrade() -> None:
    """Drop the columns. A move that is retried afterwards is made again."""
    op.drop_index(_INDEX, "deployments")
    op.drop_column("deployments", "request_digest")
    op.drop_column("deployments", "idempotency_key")
