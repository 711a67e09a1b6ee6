# SPDX-License-Identifier: MIT
"""Settings of the registry"""

from __future__ import annotations

import pytest

from serving.errors import SettingsError
from serving.names import is_name
from serving.settings import ServingSettings, load_settings


def test_the_shipped_local_settings_are_the_defaults(repository):
    assert load_settings(repository / "configs/serving/local.yaml") == ServingSettings()


def test_every_shipped_settings_file_is_valid(repository):
    files = sorted((repository / "configs/serving").glob("*.yaml"))
    assert files
    for path in files:
        load_settings(path)


def test_an_option_that_is_given_wins_over_the_file(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("port: 1234\nregistry: 2020-01-01\ntoken_cache_s: 010\n", encoding="utf-8")
    settings = load_settings(path, port=4321, registry=None)
    assert (settings.port, settings.registry, settings.token_cache_s) == (4321, "2020-01-01", 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prot: 1", "prot"),
        ("port: 65536", "port: expected less than or equal to 65535, got 65536; see"),
        ("oidc_roles: [a]", "oidc_roles: expected a mapping; see"),
        ("registry: a b", "registry"),
        ("- port", "`key: value` lines"),
        ("port: [", "YAML"),
        ("\x00", "YAML"),
        ("port: 1:30", "port"),
        ("port: 1\nport: 2", "line 2, column 1: expected settings as YAML, got other text .found port twice"),
        ("registry: !!timestamp x", "YAML"),
        ("registry: !!bool x", "YAML"),
        ("registry: " + "[" * 3000, "YAML"),
        ("port: " + "1" * 5000, "YAML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, expected):
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=expected) as error:
        load_settings(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml")


def test_an_empty_file_means_the_defaults(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("# nothing\n", encoding="utf-8")
    assert load_settings(path) == ServingSettings()


@pytest.mark.parametrize("name", ["", "foo:80", "fee:80", "[::1]", "a/b"])
def test_a_host_name_that_no_request_could_name_is_refused(name):
    with pytest.raises(SettingsError, match=r"expected a host's name alone, without port or brackets"):
        load_settings(host_names=[name])


def test_host_names_are_kept_in_small_letters():
    assert load_settings(host_names=["MyBox", "FE80::1"]).host_names == ("mybox", "fe80::1")


def test_a_database_password_is_shown_nowhere():
    settings = ServingSettings.model_validate({"database_url": "postgresql://u:hunter2@/x"})
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json()}"
    with pytest.raises(SettingsError) as error:
        load_settings(database_url=["hunter2"])
    assert "hunter2" not in str(error.value)
    with pytest.raises(SettingsError, match="expected no such field") as error:
        load_settings(databse_url="postgresql://u:hunter2@/x")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("text", ["local", "a.b_c-9", "x" * 63])
def test_a_name_is_what_the_kernel_and_a_url_both_carry(text):
    assert is_name(text)


@pytest.mark.parametrize("text", ["", "x" * 64, "..", ".", "a/b", "ä", "a\n"])
def test_other_text_is_no_name(text):
    assert not is_name(text)
