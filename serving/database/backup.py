# SPDX-License-Identifier: MIT
"""Copies a registry's SQLite database to a file while the registry runs.

    copy by SQLite's backup API -> integrity and foreign keys of the copy -> fsync -> link to its name

The copy shows one moment: that of a read transaction, which blocks no writer. It appears under its name only when it is
complete and checked, is readable by its owner alone, and needs no second file. An existing file is never replaced.
A process that is killed leaves a file `.NAME.*.part`.

PostgreSQL has programs for this. `pg_dump_command` names the one to run.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import make_url

from serving.errors import DatabaseError

# The copy of one moment does not wait for writers. SQLite makes it wait only while another process recovers the
# write-ahead log, or is the last one to close the database, and moves the log into the database file.
_BUSY_S = 30.0


@dataclass(frozen=True)
class Backup:
    """What a backup contains. channels: the last serial of each, by `CCA/NAME`."""

    file: str
    size_bytes: int
    registry: str
    schema: str
    n_ensembles: int
    n_deployments: int
    channels: dict[str, int]


def back_up_sqlite(source: Path, target: Path) -> Backup:
    """Copy the database to a new file, and return what the copy contains.

    Raises:
        DatabaseError: the source is no database of a registry or is damaged, or the target exists or cannot be written.
    """
    if not source.is_file():
        raise DatabaseError(f"{source}: expected a registry's database, there is none; correct --database")
    if target.exists() or not target.absolute().parent.is_dir():
        if target.exists():
            raise DatabaseError(f"{target}: expected a new file, it exists; choose another name, none is overwritten")
        raise DatabaseError(f"{target}: expected the folder {target.absolute().parent} to exist; make it first")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.absolute().parent)
    except OSError as error:
        raise DatabaseError(f"{target}: expected a folder that can be written, got {error.strerror}") from error
    part = Path(name)
    try:
        _copy(source, part)
        found = _examine(part, target)
        os.fsync(descriptor)
        _give_name(part, target)
    except sqlite3.Error as error:
        raise DatabaseError(f"{source}: expected a registry's database that can be copied, got {error}") from error
    except OSError as error:
        raise DatabaseError(f"{target}: expected a file that can be written, got {error.strerror}") from error
    finally:
        os.close(descriptor)
        for left in (part, Path(f"{part}-journal")):
            left.unlink(missing_ok=True)
    return found


def pg_dump_command(url: str, target: Path) -> str:
    """Return the command that backs up a PostgreSQL database. It does not contain the URL's password.

    The file is readable by its owner alone, as that of `back_up_sqlite`.
    """
    # `set` cannot remove a password, so the parts without it make a new URL.
    parsed = make_url(url)
    plain = parsed._replace(drivername="postgresql", password=None).difference_update_query(["password"])
    words = f"--file={shlex.quote(str(target))} {shlex.quote(plain.render_as_string())}"
    return f"(umask 077; pg_dump --format=custom {words})"


def _copy(source: Path, part: Path) -> None:
    # `mode=rw` creates no database, but may create the log's index, which a reader of a write-ahead log needs.
    address = f"file:{quote(str(source.absolute()))}?mode=rw"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as original,
        closing(sqlite3.connect(part)) as copy,
    ):
        original.backup(copy)
        # The source's mode is in the copy. A copy with a write-ahead log of its own would be more than one file.
        copy.execute("PRAGMA journal_mode=DELETE")


def _examine(part: Path, target: Path) -> Backup:
    with closing(sqlite3.connect(f"file:{quote(str(part))}?mode=ro", uri=True)) as copy:
        problems = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
        problems += [f"{row[0]} without its {row[2]}" for row in copy.execute("PRAGMA foreign_key_check")][:3]
        if problems:
            raise DatabaseError(
                f"{target}: expected an undamaged database, got {'; '.join(problems)}; nothing was kept: restore an "
                "earlier backup, and examine the disk"
            )
        registry, schema = copy.execute("SELECT name, version_num FROM registry, alembic_version").fetchone() or (
            "",
            "",
        )
        channels = copy.execute(
            "SELECT cca, name, channels.serial FROM channels JOIN deployments "
            "ON channel_id = channels.id AND deployments.serial = channels.serial ORDER BY cca, name"
        ).fetchall()
        n_ensembles, n_deployments = copy.execute(
            "SELECT (SELECT count(*) FROM ensembles), (SELECT count(*) FROM deployments)"
        ).fetchone()
    if not registry:
        raise DatabaseError(f"{target}: expected the database of a registry that was started once, got an empty one")
    return Backup(
        file=str(target),
        size_bytes=part.stat().st_size,
        registry=registry,
        schema=schema,
        n_ensembles=n_ensembles,
        n_deployments=n_deployments,
        channels={f"{cca}/{name}": serial for cca, name, serial in channels},
    )


def _give_name(part: Path, target: Path) -> None:
    # A rename would replace a file of this name that appeared meanwhile; a link does not.
    os.link(part, target)
    folder = os.open(target.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
