# SPDX-License-Identifier: MIT
"""The first token, and the start of a registry with and without accounts"""

from __future__ import annotations

import json
import stat

import httpx
import pytest
from sqlalchemy import text

import ccatune
from serving.access.first import check_accounts, make_admin_token
from serving.access.secret_file import new_secret_file
from serving.database import Database
from serving.errors import SettingsError
from serving.settings import ServingSettings
from tests.serving.api import START
from tests.serving.process import Process

pytestmark = pytest.mark.service


def serve(url, *options):
    """Run `ccatune serve` in this process, for a command that ends."""
    return ccatune.run(["serve", "--database", url, "--port", "0", *map(str, options)])


def test_a_database_without_a_principal_is_not_served_with_accounts(sqlite_url, capsys):
    assert serve(sqlite_url) == 2
    error = capsys.readouterr().err
    assert "expected a principal, there is none" in error
    assert "`ccatune serve --init`" in error
    assert "`ccatune serve --open`" in error


def test_the_first_token_permits_everything_and_nobody_else_enters(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/registry.db"
    assert serve(url, "--init", "--registry-name", "lab", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["registry"], made["principal"]) == ("lab", "admin")
    process = Process(tmp_path, with_accounts=True)
    try:
        assert httpx.get(f"{process.url}/v1/tokens").status_code == 401
        answer = httpx.get(f"{process.url}/v1/tokens", headers={"Authorization": f"Bearer {made['token']}"})
        assert [row["id"] for row in answer.json()["items"]] == [made["id"]]
    finally:
        process.end()


def test_a_second_first_token_needs_its_own_word_and_is_in_the_audit_log(sqlite_url, capsys):
    assert serve(sqlite_url, "--init") == 0
    assert serve(sqlite_url, "--init") == 2
    assert "`ccatune serve --init --again`" in capsys.readouterr().err
    assert serve(sqlite_url, "--init", "--again") == 0
    database = Database(sqlite_url)
    with database.read() as session:
        rows = session.execute(text("SELECT actor, action FROM audit ORDER BY id")).all()
    database.close()
    assert rows == [("init", "create-principal"), ("init", "create-token"), ("init", "create-token")]


def test_a_person_without_a_terminal_and_a_file_of_a_password_is_refused_before_anything_is_made(tmp_path, capsys):
    assert serve(f"sqlite:///{tmp_path}/registry.db", "--init", "--person", "alice") == 2
    said = capsys.readouterr().err
    assert "password of alice: expected a terminal to ask for it, got none" in said
    assert "--password-file FILE" in said
    assert list(tmp_path.iterdir()) == []


def test_a_disabled_administrator_is_enabled_again(api, database_url):
    assert api.request("DELETE", "/v1/principals/admin").status_code == 200
    assert api.get("/v1/audit").status_code == 401
    settings = ServingSettings.model_validate({"database_url": database_url, "migrate": False})
    new, registry = make_admin_token(settings, is_first=False, token_file=None, now=START)
    assert registry == "lab"
    api = api.with_token(new.text)
    assert [row["action"] for row in api.get("/v1/audit").json()["items"]][:2] == ["create-token", "enable-principal"]


def test_the_file_of_a_token_is_for_its_owner_alone_and_replaces_none(sqlite_url, tmp_path, capsys):
    path = tmp_path / "admin.token"
    assert serve(sqlite_url, "--init", "--token-file", path) == 0
    assert "ccat_" not in capsys.readouterr().out
    token = path.read_text(encoding="ascii")
    assert token.startswith("ccat_")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert serve(sqlite_url, "--init", "--again", "--token-file", path) == 2
    assert "expected no such file" in capsys.readouterr().err
    assert path.read_text(encoding="ascii") == token


def test_a_refused_start_leaves_no_file_of_a_token(sqlite_url, tmp_path):
    assert serve(sqlite_url, "--init") == 0
    path = tmp_path / "admin.token"
    assert serve(sqlite_url, "--init", "--token-file", path) == 2
    assert not path.exists()


def test_a_link_is_not_followed_to_the_file_of_a_token(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with pytest.raises(SettingsError, match="expected no such file"), new_secret_file(link):
        pass
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    "options", [["--again"], ["--token-file", "x"], ["--init", "--open"], ["--open", "--insecure-bind-anyway"],
                ["--open", "--host-name", "registry.example"], ["--open", "--host", "0.0.0.0"]],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused_before_a_database_is_made(sqlite_url, tmp_path, options):
    assert serve(sqlite_url, *options) == 2
    assert list(tmp_path.iterdir()) == []


def test_an_open_registry_accepts_everyone_and_says_so_in_the_audit_log(tmp_path):
    process = Process(tmp_path)
    try:
        body = {"principal": "p", "kind": "ci", "scopes": ["read"]}
        assert httpx.post(f"{process.url}/v1/tokens", json=body).status_code == 201
        headers = {"Authorization": "Bearer nonsense"}
        rows = httpx.get(f"{process.url}/v1/audit", headers=headers).json()["items"]
        assert {(row["actor"], row["token_id"], row["address"]) for row in rows} == {("open", None, "127.0.0.1")}
    finally:
        process.end()


def test_an_open_registry_warns_where_there_are_accounts(api, caplog):
    check_accounts(api.database, ServingSettings(open=True))
    assert caplog.text.count("this registry has accounts") == 1
    caplog.clear()
    check_accounts(api.database, ServingSettings())
    assert caplog.text == ""
