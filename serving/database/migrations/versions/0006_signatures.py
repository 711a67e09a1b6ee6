# SPDX-License-Identifier: MIT
"""Root documents, and publishers' signatures of ensembles.

Revision: 0006
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables. The registry accepts unsigned ensembles until it has a root document."""
    op.create_table(
        "roots",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_roots")),
    )
    op.create_table(
        "ensemble_signatures",
        sa.Column("id", BigId, nullable=False),
        sa.Column("digest", sa.String(71), nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        sa.Column("added_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ensemble_signatures")),
        sa.UniqueConstraint("digest", "key_id", name=op.f("uq_ensemble_signatures_digest_key_id")),
        sa.ForeignKeyConstraint(["digest"], ["ensembles.digest"], name=op.f("fk_ensemble_signatures_digest")),
    )


def downgrade() -> None:
    """Drop the tables. Agents with a pinned root document refuse unsigned offers."""
    op.drop_table("ensemble_signatures")
    op.drop_table("roots")
