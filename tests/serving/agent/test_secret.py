# SPDX-License-Identifier: MIT
"""The token's file: what is in it, and who may read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serving.agent import AgentSettings, SettingsError
from serving.agent.secret import CREDENTIAL, credential_file, read_secret, read_token

SECRET = "ccat_abc_hunter2"


def token_file(folder: Path, content: str = f"{SECRET}\n", *, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_token_is_read_without_the_lines_end(tmp_path: Path, mode: int) -> None:
    assert read_token(token_file(tmp_path, mode=mode)) == SECRET


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o660, 0o602, 0o601])
def test_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingsError, match=rf"token_file .*: expected a file that others cannot read, .* {mode:04o}"):
        read_token(token_file(tmp_path, mode=mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file of another user")
def test_token_of_another_user_is_refused(tmp_path: Path) -> None:
    path = token_file(tmp_path)
    os.chown(path, 65534, -1)
    with pytest.raises(SettingsError, match="expected root or user 0 as the owner, got user 65534"):
        read_token(path)


@pytest.mark.parametrize("content", ["", "\n", "two hunter2\nwords", "hunter2\nX-Evil: 1", "hunter2\x00", "hüntér2"])
def test_text_that_is_no_token_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    with pytest.raises(SettingsError, match="expected one token of visible ASCII characters") as error:
        read_token(token_file(tmp_path, content))
    assert "nter2" not in str(error.value)


def test_file_without_end_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected at most 4096 bytes"):
        read_token(token_file(tmp_path, "a" * 4097))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SettingsError, match="expected a regular file"):
        read_secret("token_file", tmp_path / "pipe", max_bytes=1)
    with pytest.raises(SettingsError, match="got No such file"):
        read_token(tmp_path / "none")


def test_credential_of_systemd_is_the_default_where_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert credential_file() is None
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert credential_file() is None
    (tmp_path / CREDENTIAL).touch()
    assert credential_file() == str(tmp_path / CREDENTIAL)


@pytest.mark.parametrize("host", ["registry.example", "192.0.2.1", "127.0.0.1.example", "[2001:db8::1]"])
def test_token_is_not_sent_by_http_over_a_network(host: str) -> None:
    settings = {"url": f"http://{host}:8640", "ccas": ("gr",), "token_file": "/none"}
    with pytest.raises(SettingsError, match="expected a registry by https, for others can read a token"):
        AgentSettings(**settings)  # type: ignore[arg-type]
    AgentSettings(**settings, insecure_http=True)  # type: ignore[arg-type]
    AgentSettings(**{**settings, "url": f"https://{host}"})  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_token_may_be_sent_by_http_on_the_machine_itself(host: str) -> None:
    AgentSettings(url=f"http://{host}:8640", ccas=("gr",), token_file="/none")
