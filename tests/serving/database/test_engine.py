# SPDX-License-Identifier: MIT
"""Opening a database"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from serving.database import Database, migrate, open_database
from serving.errors import DatabaseError
from serving.settings import ServingSettings


def pragma(database, name):
    """The value of an SQLite setting on a connection of the pool."""
    with database.read() as session:
        return session.scalar(text(f"PRAGMA {name}"))


def test_sqlite_writes_ahead_syncs_fully_and_checks_foreign_keys(sqlite_url):
    database = Database(sqlite_url, busy_timeout_ms=1234)
    full = 2
    found = [pragma(database, name) for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")]
    database.close()
    assert found == ["wal", full, 1, 1234]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite://", "outlives the process"),
        ("sqlite:///:memory:", "outlives the process"),
        ("sqlite:///file:x?mode=memory&uri=true", "outlives the process"),
        ("sqlite:////no/such/folder/x.db", "folder /no/such/folder to exist"),
        ("no url", "expected a URL"),
        ("postgresql://u:secret@h:abc/d", "expected a URL .* got something else"),
        ("sqlite:///a.db?timeout=abc", "expected options that its driver takes"),
        ("mysql://u@h/x", "expected sqlite:///FILE or postgresql://USER@HOST/NAME, got mysql"),
    ],
)
def test_a_database_that_cannot_keep_anything_is_refused(url, expected):
    with pytest.raises(DatabaseError, match=expected):
        Database(url)


@pytest.mark.parametrize("content", ["text", "delete", "wal"])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    file = tmp_path / "other.db"
    if content == "text":
        file.write_text("precious", encoding="utf-8")
    else:
        with closing(sqlite3.connect(file)) as other:
            other.execute(f"PRAGMA journal_mode={content}")
            other.execute("CREATE TABLE precious (x)")
    file.chmod(0o644)
    before = (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns)
    with pytest.raises(DatabaseError, match="expected a registry's database, got a"):
        open_database(ServingSettings.model_validate({"database_url": f"sqlite:///{file}"}))
    assert (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [file]


def test_the_password_of_a_url_is_not_shown():
    database = Database("postgresql://user:hunter2@127.0.0.1/name")
    assert "hunter2" not in database.shown_url
    with pytest.raises(DatabaseError) as error:
        Database("nothing://user:hunter2@h/x")
    assert "hunter2" not in str(error.value)


def fail_in(database, *statements):
    """Run the statements in one write, and then raise."""
    with database.write() as session:
        for statement in statements:
            session.execute(text(statement))
        raise RuntimeError


@pytest.mark.service
def test_a_write_that_raises_leaves_nothing(database_url):
    database = Database(database_url)
    with pytest.raises(RuntimeError):
        fail_in(database, "INSERT INTO channels (id, cca, name, serial) VALUES (1, 'gr', 'x', 0)")
    with database.read() as session:
        assert session.scalar(text("SELECT count(*) FROM channels")) == 0
    database.close()


@pytest.mark.service
def test_a_deployment_of_an_ensemble_that_is_not_there_is_refused_by_the_database(database_url):
    database = Database(database_url)
    with pytest.raises(IntegrityError):
        fail_in(
            database,
            "INSERT INTO channels (id, cca, name, serial) VALUES (1, 'gr', 'x', 1)",
            "INSERT INTO deployments (id, channel_id, serial, digest, hold_back_permille, note, deployed_at) "
            "VALUES (1, 1, 1, 'd', 0, '', '2026-03-01 12:00:00')",
        )
    database.close()


def test_two_writers_of_one_sqlite_file_follow_each_other(sqlite_url):
    database, other = Database(sqlite_url), Database(sqlite_url, busy_timeout_ms=60_000)
    migrate(database)
    inside, done = threading.Event(), threading.Event()

    def write() -> None:
        inside.set()
        with other.write() as session:
            session.execute(text("UPDATE channels SET serial = serial + 1"))
        done.set()

    with database.write() as session:
        session.execute(text("INSERT INTO channels (id, cca, name, serial) VALUES (1, 'gr', 'x', 0)"))
        thread = threading.Thread(target=write)
        thread.start()
        inside.wait()
        assert not done.is_set()
    thread.join()
    with database.read() as session:
        assert session.scalar(text("SELECT serial FROM channels")) == 1
    database.close()
    other.close()


def test_a_writer_that_waits_too_long_fails_whole(sqlite_url):
    database, other = Database(sqlite_url), Database(sqlite_url, busy_timeout_ms=0)
    migrate(database)
    with database.write(), pytest.raises(OperationalError, match="locked"), other.write():
        pass
    database.close()
    other.close()
