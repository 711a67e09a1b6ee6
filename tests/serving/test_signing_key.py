# SPDX-License-Identifier: MIT
"""The registry's signing key: at the start, in rotation, and in two processes on one PostgreSQL"""

from __future__ import annotations

import logging

import pytest

import ccatune
from serving.errors import SettingsError
from serving.registry.app import create_app
from serving.signatures import Envelope, PrivateKey, check_deployment
from tests.serving.api import Api
from tests.serving.running import CHAMPION
from tests.serving.signing import add_root, key_file, signing_api

pytestmark = pytest.mark.service


def serve(*options: str) -> int:
    """Run `ccatune serve` in this process, for a start that fails."""
    return ccatune.run(["serve", "--open", "--port", "0", *options])


def test_a_key_that_others_may_read_is_refused_and_nothing_is_written(sqlite_url, keys, tmp_path, capsys):
    path = key_file(keys.registry, tmp_path)
    path.chmod(0o640)
    assert serve("--database", sqlite_url, "--signing-key-file", str(path)) == 2
    error = capsys.readouterr().err
    assert "expected a file that its owner alone may read" in error
    assert "PRIVATE" not in error


def test_a_key_that_is_not_there_or_is_no_key_is_an_error_in_words(sqlite_url, tmp_path, capsys):
    path = tmp_path / "key.pem"
    assert serve("--database", sqlite_url, "--signing-key-file", str(path)) == 2
    assert "it cannot be read (No such file or directory)" in capsys.readouterr().err
    path.write_text("no key", encoding="utf-8")
    path.chmod(0o600)
    assert serve("--database", sqlite_url, "--signing-key-file", str(path)) == 2
    assert "expected a private key as PEM" in capsys.readouterr().err


def test_a_start_with_a_key_that_the_newest_root_document_does_not_name_is_refused(api, keys, tmp_path):
    add_root(api, keys.envelope())
    stranger = PrivateKey.generate()
    with pytest.raises(SettingsError, match=f"version 1 of the root document names.*{stranger.public.key_id}"):
        signing_api(api, stranger, tmp_path)
    with pytest.raises(SettingsError, match="signing_key_file"):
        signing_api(api, keys.publisher, tmp_path)
    signing_api(api, keys.registry, tmp_path)


def test_a_start_without_a_key_on_a_database_with_a_root_document_is_warned_of(api, keys, caplog):
    add_root(api, keys.envelope())
    with caplog.at_level(logging.WARNING):
        create_app(api.database, api.app.state.context.settings)
    assert "no signing_key_file" in caplog.text


def test_the_key_is_rotated_while_one_of_two_valid_keys_signs_at_any_time(api, keys, tmp_path):
    new = PrivateKey.generate()
    named = [[keys.registry], [keys.registry, new], [new]]

    def add(process: Api, version: int) -> int:
        return add_root(process, keys.envelope(version, registry_keys=named[version - 1])).status_code

    def signer(process: Api, version: int) -> str:
        root = keys.document(version, registry_keys=named[version - 1])
        envelope = Envelope.from_json(process.get(CHAMPION).json()["signatures"]["deployment"])
        return check_deployment(root, envelope, now_s=api.clock().timestamp())[1]

    api.move()
    before = signing_api(api, keys.registry, tmp_path)
    for version in (1, 2):
        assert (add(before, version), signer(before, version)) == (201, keys.registry.public.key_id)
    assert add(before, 3) == 409
    after = signing_api(api, new, tmp_path)
    assert signer(after, 2) == new.public.key_id
    assert (add(after, 3), signer(after, 3)) == (201, new.public.key_id)
    with pytest.raises(SettingsError):
        signing_api(api, keys.registry, tmp_path)


def test_a_stolen_key_is_removed_by_one_root_document_through_a_process_without_a_key(api, keys, tmp_path):
    new = PrivateKey.generate()
    signing = signing_api(api, keys.registry, tmp_path)
    add_root(signing, keys.envelope())
    removal = keys.envelope(2, registry_keys=[new])
    assert [add_root(process, removal).status_code for process in (signing, api)] == [409, 201]
    assert signing_api(api, new, tmp_path).get("/v1/roots").json() == removal
