# SPDX-License-Identifier: MIT
"""ccatune tokens and audit, and the token of every command"""

from __future__ import annotations

import json
import stat
from datetime import datetime, timedelta

import pytest

from serving.agent.errors import SecretError
from serving.commands.options import token_from
from serving.errors import RegistryClientError
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


@pytest.fixture
def command(api, run_command, monkeypatch):
    """Runs a command of `ccatune` with the token of an administrator; gives its exit status, output and errors."""
    monkeypatch.setenv("CCATUNE_TOKEN", api.token)
    with Running(api.database, open=False) as registry:
        yield lambda *words: run_command(*words, "--url", registry.url)


def create(command, *options):
    """Make a token as JSON."""
    status, out, error = command("tokens", "create", *options, "--json")
    assert status == 0, error
    return json.loads(out)


def test_a_token_is_made_listed_used_and_revoked(command, monkeypatch):
    made = create(command, "web-1", "--kind", "agent", "--scope", "read", "--scope", "report", "--agent-id", "web-1",
                  "--cca", "gr", "--channel", "champion", "--expires", "90d")  # fmt: skip
    assert (made["scopes"], made["ccas"], made["agent_id"]) == (["read", "report"], ["gr"], "web-1")
    status, out, _ = command("tokens", "list")
    assert status == 0
    assert out.splitlines()[1].split()[:4] == [made["id"], "web-1", "agent", "to"]
    assert out.splitlines()[1].endswith("read report  gr champion web-1")
    assert made["token"] not in out
    with monkeypatch.context() as patch:
        patch.setenv("CCATUNE_TOKEN", made["token"])
        assert command("channels", "list")[0] == 0
        status, _, error = command("tokens", "list")
        assert status == 2
        assert "403 expected a token that permits the scope admin, got the scopes read, report" in error
    assert command("tokens", "revoke", made["id"]) == (0, f"revoked {made['id']} of web-1\n", "")
    monkeypatch.setenv("CCATUNE_TOKEN", made["token"])
    status, _, error = command("channels", "list")
    assert (status, error.count("\n")) == (2, 1)
    assert "401 expected a token that this registry accepts" in error
    assert made["token"] not in error


def test_without_a_token_a_command_says_how_to_give_one(command, monkeypatch):
    monkeypatch.delenv("CCATUNE_TOKEN")
    status, _, error = command("channels", "list")
    assert status == 2
    assert "CCATUNE_TOKEN or --token-file" in error


def test_a_token_of_an_agent_has_defaults_and_any_other_says_what_it_needs(command):
    made = create(command, "web-2", "--kind", "agent")
    assert (made["scopes"], made["agent_id"]) == (["read", "report"], "web-2")
    lifetime = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lifetime == timedelta(days=90)
    made = create(command, "web-3", "--kind", "agent", "--agent-id", "web", "--scope", "read", "--expires", "1h")
    assert (made["scopes"], made["agent_id"]) == (["read"], "web")
    for options in (["--expires", "1h"], ["--scope", "read"]):
        status, _, error = command("tokens", "create", "builds", "--kind", "ci", *options)
        assert (status, "expected it for all but agents" in error) == (2, True)


def test_a_token_can_be_written_to_a_new_file_instead(command, tmp_path):
    path = tmp_path / "web.token"
    options = ("builds", "--kind", "ci", "--scope", "publish", "--expires", "never", "--out", path)
    made = create(command, *options)
    assert "token" not in made
    assert made["expires_at"] is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="ascii").startswith(f"ccat_{made['id']}_")
    status, _, error = command("tokens", "create", *options)
    assert status == 2
    assert "expected no such file" in error
    states = [row["state"] for row in json.loads(command("tokens", "list", "--principal", "builds", "--json")[1])]
    assert states == ["active"], "no token is made for a file that cannot be"


def test_all_tokens_of_a_principal_are_revoked_at_once(command):
    for _ in range(2):
        create(command, "alice", "--kind", "human", "--scope", "move", "--expires", "12h")
    assert command("tokens", "revoke", "--principal", "alice")[0] == 0
    rows = json.loads(command("tokens", "list", "--principal", "alice", "--json")[1])
    assert [row["state"] for row in rows] == ["revoked", "revoked"]
    assert command("tokens", "revoke")[0] == command("tokens", "revoke", "x", "--principal", "alice")[0] == 2
    assert command("tokens", "revoke", "../audit")[0] == 2


@pytest.mark.parametrize("expires", ["90", "0d", "-1d", "1w", "", "1.5h"])
def test_a_time_that_is_none_is_refused(command, expires):
    status, _, error = command("tokens", "create", "a", "--kind", "ci", "--scope", "read", "--expires", expires)
    assert status == 2
    assert "expected a time such as 90d" in error


def test_a_token_needs_a_decision_when_it_expires(command):
    assert command("tokens", "create", "a", "--kind", "ci", "--scope", "read")[0] == 2


def test_the_audit_log_is_listed(command, api):
    api.move(0, note="\x1b[31m")
    status, out, _ = command("audit", "--action", "move")
    assert status == 0
    assert "\x1b" not in out
    assert out.splitlines()[1].split()[2:5] == ["admin", "move", "channel"]
    rows = json.loads(command("audit", "--target", "channel gr/champion", "--json")[1])
    assert [(row["actor"], row["details"]["serial"]) for row in rows] == [("admin", 1)]
    assert len(json.loads(command("audit", "--limit", 2, "--json")[1])) == 2


def test_a_named_file_is_preferred_to_the_variable_and_the_variable_to_its_file(tmp_path, monkeypatch, command):
    del command
    for name in ("one", "two"):
        (tmp_path / name).write_text(f" ccat_{name}\n", encoding="ascii")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("CCATUNE_TOKEN", "ccat_three")
    monkeypatch.setenv("CCATUNE_TOKEN_FILE", str(tmp_path / "two"))
    assert token_from(tmp_path / "one") == "ccat_one"
    assert token_from(None) == "ccat_three"
    monkeypatch.delenv("CCATUNE_TOKEN")
    assert token_from(None) == "ccat_two"
    monkeypatch.delenv("CCATUNE_TOKEN_FILE")
    assert token_from(None) is None


@pytest.mark.parametrize("text", ["secret words", "secret\nline", "s" * 513])
def test_a_variable_without_a_token_is_an_error_that_does_not_repeat_it(monkeypatch, text, new_database_url):
    del new_database_url
    monkeypatch.setenv("CCATUNE_TOKEN", text)
    with pytest.raises(RegistryClientError, match="expected one token such as ccat_") as error:
        token_from(None)
    assert text not in str(error.value)


def test_a_file_of_a_token_that_others_may_read_is_refused(tmp_path, new_database_url):
    del new_database_url
    (tmp_path / "token").write_text("ccat_secret", encoding="ascii")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(SecretError, match="expected a file that others cannot read, got the mode 0644"):
        token_from(tmp_path / "token")
