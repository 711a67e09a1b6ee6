# SPDX-License-Identifier: MIT
"""Alembic runs this file. It applies the migrations on the connection that serving.database.migrate opened."""

from alembic import context

from serving.database.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # On SQLite, too, changes of the schema are transactional, because engine.py stops sqlite3 from committing by
    # itself.
    transactional_ddl=True,
    # On SQLite most changes of a table require a copy of the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
