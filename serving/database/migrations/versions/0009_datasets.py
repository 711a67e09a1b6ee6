# SPDX-License-Identifier: MIT
"""What runners say of their datasets, and the course of each attempt at a job.

Revision: 0009
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of datasets, and add the course of attempts."""
    op.add_column("job_attempts", sa.Column("course", sa.Text(), nullable=False, server_default="[]"))
    op.create_table(
        "datasets",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("content", sa.String(64), nullable=False),
        sa.Column("runner", sa.String(128), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("said_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", "content", name=op.f("uq_datasets_name_content")),
    )
