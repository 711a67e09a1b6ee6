# SPDX-License-Identifier: MIT
"""Settings and the token's file: what is refused, and by what words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from serving.agent.errors import SettingsError
from serving.agent.settings import SECONDS, AgentSettings, read_config, read_secret, read_token

URL = "http://127.0.0.1:8640"


def test_defaults_are_within_their_own_ranges() -> None:
    settings = AgentSettings(url=URL, ccas=("gr",))
    assert (settings.channel, settings.via) == ("champion", "auto")
    for name, (smallest, default, largest, _) in SECONDS.items():
        assert smallest <= getattr(settings, name) == default <= largest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"url": url}, "url: expected http") for url in ("", "registry", "ftp://r", "http://", "http://u:p@r")),
        *(({"url": f"http://{rest}"}, "url: expected http") for rest in ("r?x=1", "r/#x", "r:99999", "[r")),
        ({"ccas": ()}, "cca: expected at least one"),
        ({"ccas": ("gr", "gr")}, "cca: expected each algorithm once"),
        ({"ccas": ("../gr",)}, "cca: expected one of gr, cubic"),
        ({"ccas": ("reno",)}, "cca: expected one of gr, cubic"),
        ({"channel": ""}, "channel: expected a name"),
        ({"channel": "a/b"}, "channel: expected a name"),
        ({"agent_id": "a b"}, "agent_id: expected 1 to 128"),
        ({"agent_id": "."}, "agent_id: expected 1 to 128"),
        ({"labels": {"Site": "a"}}, "labels: expected names of 1 to 63 of a-z"),
        ({"labels": {"site": "a b"}}, "labels: expected site as 1 to 63 of A-Z"),
        ({"labels": {f"label{n}": "a" for n in range(9)}}, "labels: expected at most 8, got 9"),
        ({"registry_name": "a/b"}, "registry_name: expected a name"),
        ({"via": "xdp"}, "via: expected one of auto, proc, bpf, got 'xdp'"),
        ({"ca_file": "ca.pem"}, "ca_file: expected a registry by https, got http"),
        ({"client_cert_file": "web.pem"}, "client_cert_file: expected a registry by https, got http"),
        ({"url": "https://r", "client_key_file": "web.key"}, "client_key_file: expected client_cert_file with it"),
        ({"url": "http://r", "token_file": "token"}, "token_file: expected a registry by https"),
        ({"interval_s": 0}, "interval_s: expected 0.05 to 3600 s, got 0"),
        ({"wait_s": float("nan")}, "wait_s: expected 0 to 600 s, got nan"),
        ({"timeout_s": 601}, "timeout_s: expected 0.1 to 600 s"),
        ({"rtcp_prefixes": "24"}, "rtcp_prefixes: expected the lengths for IPv4 and IPv6"),
        ({"rtcp_prefixes": "33,56"}, "rtcp_prefixes: expected the lengths for IPv4 and IPv6"),
        ({"rtcp_prefixes": "24,56"}, "rtcp_prefixes: expected textfile with it"),
    ],
)
def test_setting_out_of_its_range_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        AgentSettings(**{"url": URL, "ccas": ("gr",), **changes})  # type: ignore[arg-type]


def config(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_that_nobody_named_may_be_missing(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml", required=False) == {}
    with pytest.raises(SettingsError, match="there is none; set --config"):
        read_config(tmp_path / "none.toml", required=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("registri = 1", "got the key registri"),
        ("interval_s = true", "expected interval_s as int or float"),
        ("url = 5", "expected url as str"),
        ("labels = {site = 1}", "agent.toml: labels: expected site as 1 to 63"),
        ("insecure_http = 1", "expected insecure_http as bool"),
        ("not toml", "expected a TOML file"),
        ("wait_s = " + "[" * 3000, "expected a TOML file"),
        ("wait_s = " + "1" * 5000, "expected a TOML file"),
        ("wait_s = " + "1" * 340, "wait_s: expected 0 to 600 s, got 1111"),
    ],
)
def test_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        read_config(config(tmp_path, text), required=True)


def test_password_in_the_file_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        read_config(config(tmp_path, 'url = ["http://user:hunter2@r"]'), required=True)
    assert "hunter2" not in str(error.value)


# -- the token ------------------------------------------------------------------------

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
