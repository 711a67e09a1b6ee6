# SPDX-License-Identifier: MIT
"""Run by Alembic: applies the migrations over the connection that serving.database.migrate hands in."""

from alembic import context

from serving.database.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite's data definition is transactional too, once sqlite3 is kept from committing by itself.
    transactional_ddl=True,
    # SQLite alters most things by copying the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
