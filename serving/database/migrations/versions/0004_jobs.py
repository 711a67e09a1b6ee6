# SPDX-License-Identifier: MIT
"""Training jobs. serving/database/jobs.py describes the tables.

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
    """Create the tables of jobs and of their attempts."""
    op.create_table(
        "jobs",
        sa.Column("id", BigId, nullable=False),
        sa.Column("study", sa.String(63), nullable=False),
        sa.Column("study_text", sa.Text(), nullable=False),
        sa.Column("cca", sa.String(63), nullable=False),
        sa.Column("datasets", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.String(128), nullable=False),
        sa.Column("submitted_at", UtcDateTime(), nullable=False),
        sa.Column("idempotency_key", sa.String(128), nullable=True),
        sa.Column("request_digest", sa.String(71), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("is_cancelling", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(128), nullable=True),
        sa.Column("lease", sa.String(64), nullable=True),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("digest", sa.String(71), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.ForeignKeyConstraint(["digest"], ["ensembles.digest"], name=op.f("fk_jobs_digest")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"])
    key = ["submitted_by", "idempotency_key"]
    op.create_index(op.f("ix_jobs_submitted_by_idempotency_key"), "jobs", key, unique=True)
    op.create_table(
        "job_attempts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("job_id", BigId, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(128), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("outcome", sa.String(16), nullable=True),
        sa.Column("log", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_attempts")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_attempts_job_id")),
        sa.UniqueConstraint("job_id", "attempt", name=op.f("uq_job_attempts_job_id_attempt")),
    )
