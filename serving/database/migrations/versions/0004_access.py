# SPDX-License-Identifier: MIT
"""Principals, their tokens, and the audit log. An existing database has none of them.

Revision: 0004
"""

import sqlalchemy as sa
from alembic import op

from serving.database.types import BigId, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and the counter of changes to tokens. SQLite adds the column without copying the table."""
    op.add_column("registry", sa.Column("access_version", sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "principals",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
        sa.UniqueConstraint("name", name=op.f("uq_principals_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", BigId, nullable=False),
        sa.Column("public_id", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("principal_id", BigId, nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("ccas", sa.Text(), nullable=True),
        sa.Column("channels", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.String(128), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_tokens_principal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("public_id", name=op.f("uq_tokens_public_id")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_index(op.f("ix_tokens_principal_id"), "tokens", ["principal_id"])
    op.create_index(op.f("ix_tokens_version"), "tokens", ["version"])
    op.create_table(
        "audit",
        sa.Column("id", BigId, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(128), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("address", sa.String(64), nullable=True),
        sa.Column("action", sa.String(63), nullable=False),
        sa.Column("target", sa.String(256), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    for column in ("actor", "action", "target"):
        op.create_index(op.f(f"ix_audit_{column}"), "audit", [column])


def downgrade() -> None:
    """Drop the tables and the counter. All tokens and the audit log are lost."""
    for name in ("audit", "tokens", "principals"):
        op.drop_table(name)
    op.drop_column("registry", "access_version")
