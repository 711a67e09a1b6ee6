# SPDX-License-Identifier: MIT
"""When each agent first reported its table, for the delivery of a move.

Revision: 0008
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the time, which is unknown for tables that agents had before."""
    op.add_column("agents", sa.Column("effective_since", UtcDateTime(), nullable=True))
