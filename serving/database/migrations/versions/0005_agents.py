# SPDX-License-Identifier: MIT
"""Agents get the run that reported last, and the time at which two runs were seen under one id.

Revision: 0005
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from serving.database.types import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "run_id": sa.String(64),
    "previous_run_id": sa.String(64),
    "run_changed_at": UtcDateTime(),
    "id_shared_at": UtcDateTime(),
}


def upgrade() -> None:
    """Add the columns. SQLite adds them without copying the table."""
    for name, kind in _COLUMNS.items():
        op.add_column("agents", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Drop the columns. The agents' next reports need none of them."""
    for name in reversed(_COLUMNS):
        op.drop_column("agents", name)
