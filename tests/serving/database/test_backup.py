# SPDX-License-Identifier: MIT
"""`ccatune registry backup`: the file that it makes, and what it refuses"""

from __future__ import annotations

import json
import sqlite3
import stat

import pytest

import ccatune
from serving.database import Database, migrate
from serving.database.migrate import head_revision
from tests.serving.api import Api, api_of, make_ensemble

pytestmark = pytest.mark.service


@pytest.fixture
def registry(sqlite_url) -> Api:
    """A registry with one channel at serial 2, whose last writes are still in the write-ahead log."""
    database = Database(sqlite_url)
    migrate(database)
    api = api_of(database, registry="lab", open=True)
    api.move(0)
    api.move(1)
    yield api
    database.close()


def back_up(url, file, *options) -> int:
    """Run the command."""
    return ccatune.run(["registry", "backup", str(file), "--database", url, *options])


@pytest.mark.usefixtures("registry")
def test_backup_is_one_private_file_with_everything(sqlite_url, tmp_path, capsys):
    folder = tmp_path / "backups"
    folder.mkdir()
    assert back_up(sqlite_url, folder / "one.db", "--json") == 0
    assert [path.name for path in folder.iterdir()] == ["one.db"]
    assert stat.S_IMODE((folder / "one.db").stat().st_mode) == 0o600
    assert json.loads(capsys.readouterr().out) == {
        "file": str(folder / "one.db"),
        "size_bytes": (folder / "one.db").stat().st_size,
        "registry": "lab",
        "schema": head_revision(),
        "n_ensembles": 2,
        "n_deployments": 2,
        "channels": {"gr/champion": 2},
    }
    restored = Database(f"sqlite:///{folder}/one.db")
    offer = api_of(restored, open=True).get("/v1/channels/gr/champion").json()
    assert (offer["serial"], offer["ensemble"]) == (2, make_ensemble(1).to_json())
    restored.close()
    assert back_up(sqlite_url, folder / "two.db") == 0
    assert "gr/champion at serial 2" in capsys.readouterr().out


@pytest.mark.usefixtures("registry")
def test_existing_file_is_never_overwritten(sqlite_url, tmp_path, capsys):
    file = tmp_path / "kept.db"
    file.write_text("precious")
    assert back_up(sqlite_url, file) == 2
    assert "expected a new file, it exists" in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert back_up(sqlite_url, tmp_path / "none" / "x.db") == 2
    assert "expected the folder" in capsys.readouterr().err


def test_missing_database_is_not_made(tmp_path, capsys):
    assert back_up(f"sqlite:///{tmp_path}/none.db", tmp_path / "copy.db") == 2
    assert "expected a registry's database, there is none" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_other_file_than_a_registrys_database_leaves_no_backup(tmp_path, capsys):
    (tmp_path / "text.db").write_bytes(b"no database" * 1000)
    sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE t (x)")
    for name, words in (("text.db", "not a database"), ("other.db", "got a database with other tables (t)")):
        assert back_up(f"sqlite:///{tmp_path}/{name}", tmp_path / "copy.db") == 2
        assert words in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.db", "text.db"]


def test_damaged_database_leaves_no_backup(registry, sqlite_url, tmp_path, capsys):
    registry.database.close()
    file = tmp_path / "registry.db"
    size = file.stat().st_size
    with file.open("r+b") as database:
        # A page in the middle, which the schema's own pages are not.
        database.seek(size // 2 // 4096 * 4096)
        database.write(b"\xff" * 4096)
    before = sorted(tmp_path.iterdir())
    assert back_up(sqlite_url, tmp_path / "copy.db") == 2
    assert "ccatune: " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_postgresql_is_told_which_program_to_run_without_a_password(tmp_path, capsys):
    assert back_up("postgresql://me:secret@host/registry", tmp_path / "a.dump") == 2
    said = capsys.readouterr().err
    assert f"run `(umask 077; pg_dump --format=custom --file={tmp_path}/a.dump postgresql://me@host/registry)`" in said
    assert "secret" not in said
