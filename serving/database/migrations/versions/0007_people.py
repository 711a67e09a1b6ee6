# SPDX-License-Identifier: MIT
"""People who log in to pages. serving/database/people_models.py describes the tables.

Revision: 0007
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def _of_person(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["principal_id"], ["people.principal_id"], name=op.f(f"fk_{table}_principal_id"))


def upgrade() -> None:
    """Create the tables of people, their passkeys and sessions, and of words that are used once."""
    op.create_table(
        "people",
        sa.Column("principal_id", BigId, autoincrement=False, nullable=False),
        sa.Column("handle", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("must_change", sa.Boolean(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("logged_in_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("principal_id", name=op.f("pk_people")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_people_principal_id")),
        sa.UniqueConstraint("handle", name=op.f("uq_people_handle")),
        sa.UniqueConstraint("subject", name=op.f("uq_people_subject")),
    )
    op.create_table(
        "passkeys",
        sa.Column("id", BigId, nullable=False),
        sa.Column("principal_id", BigId, nullable=False),
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_passkeys")),
        _of_person("passkeys"),
        sa.UniqueConstraint("credential_id", name=op.f("uq_passkeys_credential_id")),
    )
    _create_sessions()
    op.create_table(
        "one_time",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("principal_id", BigId, nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_one_time")),
        _of_person("one_time"),
    )
    indexed = (
        ("passkeys", ("principal_id",)),
        ("sessions", ("principal_id", "device_digest", "expires_at")),
        ("one_time", ("principal_id", "expires_at")),
    )
    for table, columns in indexed:
        for column in columns:
            op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", BigId, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("device_digest", sa.String(64), nullable=False),
        sa.Column("principal_id", BigId, nullable=False),
        sa.Column("csrf_token", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("user_agent", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        _of_person("sessions"),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
