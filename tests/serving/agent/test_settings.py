# SPDX-License-Identifier: MIT
"""Settings: what is refused, and by what words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from serving.agent import AgentSettings, SettingsError
from serving.agent.settings import SECONDS, read_config

URL = "http://127.0.0.1:8640"


def test_defaults_are_within_their_own_ranges() -> None:
    settings = AgentSettings(url=URL, ccas=("gr",))
    assert (settings.channel, settings.via) == ("champion", "auto")
    for name, (smallest, default, largest, _) in SECONDS.items():
        assert smallest <= getattr(settings, name) == default <= largest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": ""}, "url: expected http"),
        ({"ccas": ()}, "cca: expected at least one"),
        ({"ccas": ("gr", "gr")}, "cca: expected each algorithm once"),
        ({"ccas": ("../gr",)}, "cca: expected one of gr, roccet"),
        ({"ccas": ("reno",)}, "cca: expected one of gr, roccet"),
        ({"channel": ""}, "channel: expected a name"),
        ({"channel": "a/b"}, "channel: expected a name"),
        ({"agent_id": "a b"}, "agent_id: expected 1 to 128"),
        ({"agent_id": "."}, "agent_id: expected 1 to 128"),
        ({"registry_name": "a/b"}, "registry_name: expected a name"),
        ({"via": "xdp"}, "via: expected one of auto, proc, bpf, got 'xdp'"),
        ({"ca_file": "ca.pem"}, "ca_file: expected a registry by https, got http"),
        ({"client_cert_file": "web.pem"}, "client_cert_file: expected a registry by https, got http"),
        ({"url": "https://r", "client_key_file": "web.key"}, "client_key_file: expected client_cert_file with it"),
        ({"url": "http://r", "token_file": "token"}, "token_file: expected a registry by https"),
        ({"interval_s": 0}, "interval_s: expected 0.05 to 3600 s, got 0"),
        ({"wait_s": float("nan")}, "wait_s: expected 0 to 600 s, got nan"),
        ({"timeout_s": 601}, "timeout_s: expected 0.1 to 600 s"),
    ],
)
def test_setting_out_of_its_range_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        AgentSettings(**{"url": URL, "ccas": ("gr",), **changes})  # type: ignore[arg-type]


def config(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_gives_its_keys(tmp_path: Path) -> None:
    path = config(tmp_path, f'url = "{URL}"\ncca = ["gr"]\ninterval_s = 5\n')
    assert read_config(path, required=True) == {"url": URL, "cca": ["gr"], "interval_s": 5}


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
