# SPDX-License-Identifier: MIT
"""Opens a database so that an acknowledged change is durable.

- SQLite: write-ahead log with synchronous=FULL, so that a commit is on disk before it returns; foreign keys are
  enforced; a busy timeout is set. A write transaction takes the write lock at its begin. A second one then waits
  instead of failing midway. Other users cannot open its files (private.py).
- PostgreSQL: synchronous_commit is on. A move of a channel locks the channel's row. The database's encoding must be
  UTF8: with SQL_ASCII the driver returns bytes instead of text, and other encodings cannot store every note.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, create_engine, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, Session

from serving.database.private import keep_private, require_registrys
from serving.errors import DatabaseError

Row = TypeVar("Row")
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

_WRITE = "ccatune_write"


class Database:
    """Opens sessions for reading and writing. `write()` commits all changes at its end, or none of them."""

    def __init__(self, url: str, *, busy_timeout_ms: int = 5000, max_connections: int = 16) -> None:
        """Open the database, with at most `max_connections` connections at once.

        Raises DatabaseError where the URL is invalid, of another kind of database, of one in memory, or of a file that
        holds something else. Such a file is left as it is.
        """
        parsed = _parse(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.sqlite_file = Path(str(parsed.database)) if self.is_sqlite else None
        self.shown_url = parsed.render_as_string(hide_password=True)
        try:
            self._engine = create_engine(
                parsed, pool_size=max_connections, max_overflow=0, pool_pre_ping=not self.is_sqlite
            )
        except ValueError as error:
            raise DatabaseError(
                f"database {self.shown_url}: expected options that its driver takes, got {error}"
            ) from error
        if self.sqlite_file is not None:
            require_registrys(self.sqlite_file)
            _prepare_sqlite(self._engine, self.sqlite_file, busy_timeout_ms=busy_timeout_ms)
        else:
            _prepare_postgresql(self._engine, shown_url=self.shown_url)
        self._writing_engine = self._engine.execution_options(**{_WRITE: True})

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session for reading. On SQLite all its queries see the same state of the database."""
        with Session(self._engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a session for writing. Its changes are committed at the end of the block, or dropped if it raises."""
        with Session(self._writing_engine, expire_on_commit=False) as session, session.begin():
            # This begins the database's transaction too, so that SQLite's write lock is held before the first query.
            session.connection()
            yield session

    @contextmanager
    def connect_for_schema(self) -> Iterator[Connection]:
        """Open one write transaction without a session, for the migrations."""
        with self._writing_engine.begin() as connection:
            yield connection

    def ping(self) -> None:
        """Raise an SQLAlchemyError if the database does not answer."""
        with self.read() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The message omits the original error, which would show the URL with its password.
        raise DatabaseError(
            "database: expected a URL such as sqlite:///FILE or postgresql://USER@HOST/NAME, got something else"
        ) from error
    if parsed.drivername in {"postgresql", "postgresql+psycopg"}:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise DatabaseError(
            f"database: expected sqlite:///FILE or postgresql://USER@HOST/NAME, got {parsed.drivername}"
        )
    if parsed.database in {None, "", ":memory:"} or "mode" in parsed.query:
        raise DatabaseError("database: expected a file that outlives the process, sqlite:///FILE; got one in memory")
    if "uri" in parsed.query:
        raise DatabaseError("database: expected the path of a file, sqlite:///FILE; got a URI of SQLite")
    folder = Path(str(parsed.database)).absolute().parent
    if not folder.is_dir():
        raise DatabaseError(f"database {url}: expected the folder {folder} to exist; make it first")
    return parsed


def _prepare_sqlite(engine: Engine, file: Path, *, busy_timeout_ms: int) -> None:
    @event.listens_for(engine, "do_connect")
    def _before_connect(*_: object) -> None:
        keep_private(file)

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
        # This stops sqlite3 from beginning transactions by itself: `_on_begin` begins them.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={busy_timeout_ms}")
        _enable_wal(connection, timeout_ms=busy_timeout_ms)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _enable_wal(connection: sqlite3.Connection, *, timeout_ms: int) -> None:
    """Switch to the write-ahead log. The busy timeout does not cover this switch, so it is retried here."""
    deadline_s = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(0.01)
        else:
            return


def _prepare_postgresql(engine: Engine, *, shown_url: str) -> None:
    # SQLAlchemy's own first queries fail on a database of another encoding, so this listener precedes them.
    @event.listens_for(engine, "connect", insert=True)
    def _on_connect(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_encoding")
            encoding = cursor.fetchone()[0]
            cursor.execute("SET synchronous_commit TO on")
        connection.commit()
        encoding = encoding.decode("ascii") if isinstance(encoding, bytes) else str(encoding)
        if encoding != "UTF8":
            connection.close()
            raise DatabaseError(
                f"database {shown_url}: expected the encoding UTF8, got {encoding}; make another database with "
                "`createdb --encoding=UTF8 --locale=C --template=template0 NEW_NAME`"
            )


def narrowed(query: Query, *conditions: tuple[InstrumentedAttribute[Any], Any]) -> Query:
    """Return the query for rows whose columns have the given values. A value of None is no condition.

    A set is a condition of membership.
    """
    for column, wanted in conditions:
        if wanted is not None:
            query = query.where(column.in_(wanted) if isinstance(wanted, frozenset) else column == wanted)
    return query


def insert_for(session: Session, table: type[DeclarativeBase]) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT into the table in the dialect of the database, for `on_conflict_do_update`."""
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def insert_or_find(session: Session, row: Row, *, find: Callable[[], Row | None]) -> tuple[Row, bool]:
    """Insert the row unless `find` returns one. Return the stored row, and whether it was inserted."""
    known = find()
    if known is not None:
        return known, False
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        # Another transaction has inserted it after the query above, and has committed.
        known = find()
        if known is None:
            raise
        return known, False
    return row, True
