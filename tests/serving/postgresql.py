# SPDX-License-Identifier: MIT
"""A PostgreSQL server for tests: started, used over a Unix socket and stopped by the tests themselves."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from sqlalchemy import create_engine, text

from serving.database import Base, Database, migrate

POSTGRESQL_START_S = 30
MIGRATED = "ccatune"


class PostgreSql:
    """A PostgreSQL server in a folder of its own, behind a Unix socket, run by an unprivileged user."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._numbers = itertools.count(1)
        self.folder = Path(tempfile.mkdtemp(prefix="ccatune-pg-"))
        self._as_user = self._unprivileged()
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "ccatune", "--auth=trust", "--no-sync", "-E", "UTF8")
        with (self.folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [*self._as_user, str(binaries / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder),
                 "-c", "listen_addresses=", "-c", "fsync=off"],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
            )  # fmt: skip
        self._wait_until_ready()
        self._execute(f"CREATE DATABASE {MIGRATED}")
        database = Database(self.url(MIGRATED))
        migrate(database)
        database.close()

    def url(self, name: str) -> str:
        """The address of a database of this server."""
        return f"postgresql://ccatune@/{name}?host={self.folder}"

    def empty_database(self, *, encoding: str = "UTF8") -> str:
        """The address of a new database without any table."""
        name = f"test{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        return self.url(name)

    def migrated_database(self) -> str:
        """The address of the database with the current schema, without any row: one test after the other has it."""
        tables = ", ".join(table.name for table in Base.metadata.sorted_tables)
        self._execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE", name=MIGRATED)
        return self.url(MIGRATED)

    def dump(self, url: str, file: Path) -> None:
        """Back a database up, as docs/backup.md says."""
        subprocess.run(
            [str(self._binaries / "pg_dump"), "--format=custom", f"--file={file}", url], check=True, capture_output=True
        )

    def restored(self, file: Path) -> str:
        """The address of a new database that is restored from a backup, as docs/backup.md says."""
        url = self.empty_database()
        subprocess.run(
            [str(self._binaries / "pg_restore"), "--exit-on-error", "--no-owner", f"--dbname={url}", str(file)],
            check=True,
            capture_output=True,
        )
        return url

    def stop(self) -> None:
        """End the server and remove its folder."""
        # Its data goes with the folder: no need to end in order.
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(timeout=POSTGRESQL_START_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unprivileged(self) -> list[str]:
        """What to put before a command: PostgreSQL refuses to run as root; it ends with us, however we end."""
        if os.geteuid() != 0:
            return ["setpriv", "--pdeathsig", "INT"]
        nobody = pwd.getpwnam("nobody")
        os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        ids = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--pdeathsig", "INT"]

    def _run(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [*self._as_user, str(self._binaries / command), *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
        )

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + POSTGRESQL_START_S
        while subprocess.run(
            [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder)], check=False, capture_output=True
        ).returncode:
            if time.monotonic() > deadline_s or self._server.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text(encoding="utf-8"))
            time.sleep(0.05)

    def _execute(self, statement: str, *, name: str = "postgres") -> None:
        url = self.url(name).replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


def postgresql_binaries() -> Path | None:
    """The folder of Debian's PostgreSQL, which is not on PATH; the newest where there are several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None
