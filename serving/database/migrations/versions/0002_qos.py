# SPDX-License-Identifier: MIT
"""The sums of flows. serving/database/qos_models.py describes the tables.

Revision: 0002, after 0001
"""

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COUNTS = (
    "epochs", "visits", "time_us", "bytes", "segments", "retransmitted", "delay_samples", "delay_us", "within_target"
)  # fmt: skip


def upgrade() -> None:
    """Add the tables, and what an agent's row says of the last delta."""
    # SQLite copies the table. Its row numbers are never used again from now on, because sums are stored under them.
    copied: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("agents", recreate=copied, table_kwargs={"sqlite_autoincrement": True}) as agents:
        agents.add_column(sa.Column("sums_series", sa.String(64), nullable=True))
        agents.add_column(sa.Column("sums_sequence", sa.BigInteger(), nullable=True))
    _create("qos", "state", sa.Integer())
    _create("qos_agents", "agent", sa.BigInteger())


def _create(name: str, key: str, kind: sa.Integer) -> None:
    keys = [
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("held_back", sa.Boolean(), nullable=False),
        sa.Column("delay_class", sa.Integer(), nullable=False),
        sa.Column(key, kind, nullable=False),
    ]
    op.create_table(
        name,
        *keys,
        *(sa.Column(count, sa.BigInteger(), nullable=False) for count in _COUNTS),
        sa.PrimaryKeyConstraint(*(column.name for column in keys), name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )
