# SPDX-License-Identifier: MIT
"""TLS of the registry: which files it takes, and real handshakes on loopback."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import ccatune
from serving.database import open_database
from serving.errors import SettingsError
from serving.http.tls import RegistryTls, TlsFiles
from serving.settings import ServingSettings, load_settings
from tests.serving.certificates import Authority, Pair
from tests.serving.process import Process
from tests.serving.running import Running

LIMIT_S = 20.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """A client's context; with a pair it shows this certificate."""
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def serial_shown(address: tuple[str, int], authority: Authority) -> str:
    """The serial number of the certificate that the registry shows to a new connection."""
    with (
        socket.create_connection(address, timeout=LIMIT_S) as plain,
        trusting(authority).wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        shown = tls.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def refused(tmp_path: Path, spoil: Callable[[Pair], object]) -> str:
    """The error for a pair that was spoilt."""
    pair = Authority(tmp_path).issue()
    spoil(pair)
    with pytest.raises(SettingsError) as error:
        RegistryTls(TlsFiles(pair.cert, pair.key))
    return str(error.value)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda pair: pair.cert.unlink(), r"tls_cert_file .*server\.pem: expected a certificate, got No such file"),
        (lambda pair: pair.key.unlink(), r"tls_key_file .*server\.key: expected a private key, got No such file"),
        (lambda pair: pair.cert.write_text("no PEM"), "tls_cert_file .*: expected a certificate in PEM form"),
        (lambda pair: pair.key.write_text("no PEM"), "tls_key_file .*: expected a private key in PEM form"),
        (lambda pair: pair.key.chmod(0o604), "tls_key_file .*: expected a key that others cannot read, .* mode 0604"),
        (lambda pair: pair.key.chmod(0o660), "tls_key_file .*: .* mode 0660; `chmod 0600"),
    ],
)
def test_file_that_cannot_be_used_is_an_error_in_words(
    tmp_path: Path, spoil: Callable[[Pair], object], words: str
) -> None:
    assert re.match(words, refused(tmp_path, spoil))


def test_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").issue("other")
    words = refused(tmp_path, lambda pair: other.key.rename(pair.key))
    assert "expected the key of the first certificate" in words


def test_certificate_that_expired_is_refused_with_its_time(authority: Authority) -> None:
    pair = authority.issue(days=-1)
    with pytest.raises(SettingsError, match=r"expected a certificate that is valid at .*; renew it"):
        RegistryTls(TlsFiles(pair.cert, pair.key))


def test_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(authority: Authority) -> None:
    pair = authority.issue(passphrase=b"hunter2")
    with pytest.raises(SettingsError, match="expected a key without a passphrase"):
        RegistryTls(TlsFiles(pair.cert, pair.key))


def test_key_that_a_group_may_read_is_taken(authority: Authority) -> None:
    pair = authority.issue()
    pair.key.chmod(0o640)
    RegistryTls(TlsFiles(pair.cert, pair.key))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tls_cert_file": "a"}, "expected both tls_cert_file and tls_key_file"),
        ({"tls_key_file": "a"}, "expected both tls_cert_file and tls_key_file"),
        ({"client_ca_file": "a"}, "client_ca_file: expected tls_cert_file and tls_key_file with it"),
    ],
)
def test_half_of_the_files_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(**settings)


def test_authorities_that_are_no_certificates_are_refused(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue()
    with pytest.raises(SettingsError, match=r"client_ca_file .*: expected certificates in PEM form, got No such file"):
        RegistryTls(TlsFiles(pair.cert, pair.key, tmp_path / "none.pem"))


def test_renewed_certificate_is_loaded_once_both_files_are_there(authority: Authority) -> None:
    pair = authority.issue()
    tls = RegistryTls(TlsFiles(pair.cert, pair.key))
    before = pair.key.read_bytes()
    authority.issue()
    renewed, _ = pair.key.read_bytes(), pair.key.write_bytes(before)
    # Half of a renewal: the certificate is new, and the key is not.
    assert not tls.reload()
    pair.key.write_bytes(renewed)
    assert tls.reload()


def running(folder: Path, pair: Pair, **changed: object) -> Running:
    """A registry with TLS on loopback."""
    settings = ServingSettings.model_validate({"database_url": f"sqlite:///{folder}/registry.db"})
    database = open_database(settings)
    return Running(database, tls_cert_file=pair.cert, tls_key_file=pair.key, **changed)


def test_registry_answers_by_https_and_not_to_a_client_that_trusts_another_authority(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    with running(tmp_path, authority.issue()) as registry:
        assert registry.url.startswith("https://127.0.0.1:")
        answer = httpx.get(f"{registry.url}/healthz", verify=trusting(authority))
        assert answer.json() == {"status": "ok", "registry": "lab"}
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{registry.url}/healthz", verify=trusting(stranger))
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{registry.url.replace('https', 'http')}/healthz")


def test_tls_below_1_2_is_refused(authority: Authority, tmp_path: Path) -> None:
    with running(tmp_path, authority.issue()) as registry:
        context = trusting(authority)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{registry.url}/healthz", verify=context)


def test_clients_must_show_a_certificate_of_the_authority(authority: Authority, tmp_path: Path) -> None:
    clients = Authority(tmp_path, "clients")
    strangers = Authority(tmp_path, "strangers")
    with running(tmp_path, authority.issue(), client_ca_file=clients.file) as registry:
        url = f"{registry.url}/healthz"
        assert httpx.get(url, verify=trusting(authority, clients.issue("web-1"))).status_code == 200
        for pair in (None, strangers.issue("web-2")):
            with pytest.raises(httpx.HTTPError):
                httpx.get(url, verify=trusting(authority, pair))


def test_handshake_that_is_not_begun_ends_at_the_time_limit_of_a_head(authority: Authority, tmp_path: Path) -> None:
    with running(tmp_path, authority.issue(), head_timeout_s=0.2) as registry:
        url = httpx.URL(registry.url)
        with socket.create_connection((url.host, url.port or 0), timeout=LIMIT_S) as silent:
            assert silent.recv(1) == b""


def test_stop_does_not_wait_for_a_client_that_is_idle(authority: Authority, tmp_path: Path) -> None:
    with httpx.Client(verify=trusting(authority)) as client:
        with running(tmp_path, authority.issue()) as registry:
            client.get(f"{registry.url}/healthz")
            began_s = time.monotonic()
        # Without an end from the registry's side it would take uvicorn's 5 s.
        assert time.monotonic() - began_s < 4.5


def test_commands_take_the_files_from_options_and_from_the_environment(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = Authority(tmp_path, "clients")
    own = clients.issue("operator")
    with running(tmp_path, authority.issue(), client_ca_file=clients.file) as registry:
        command = ["channels", "list", "--json", "--url", registry.url]
        assert ccatune.run(command) == 2
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
        files = [
            "--ca-file",
            str(authority.file),
            "--client-cert-file",
            str(own.cert),
            "--client-key-file",
            str(own.key),
        ]
        assert ccatune.run([*command, *files]) == 0
        monkeypatch.setenv("CCATUNE_CA_FILE", str(authority.file))
        monkeypatch.setenv("CCATUNE_CLIENT_CERT_FILE", str(own.cert))
        monkeypatch.setenv("CCATUNE_CLIENT_KEY_FILE", str(own.key))
        assert ccatune.run(command) == 0
        assert capsys.readouterr().out.splitlines() == ["[]", "[]"]
        own.key.chmod(0o644)
        assert ccatune.run(command) == 2
        assert "client_key_file" in capsys.readouterr().err


def test_changed_files_are_loaded_without_a_signal(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.registry.server._RELOAD_CHECK_S", 0)
    with running(tmp_path, authority.issue()) as registry:
        url = httpx.URL(registry.url)
        address = (url.host, url.port or 0)
        first = serial_shown(address, authority)
        with httpx.Client(verify=trusting(authority)) as connected:
            connected.get(f"{registry.url}/healthz")
            authority.issue()
            deadline_s = time.monotonic() + LIMIT_S
            while serial_shown(address, authority) == first:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            # A connection from before goes on.
            assert connected.get(f"{registry.url}/healthz").status_code == 200


@pytest.mark.service
def test_sighup_loads_a_renewed_certificate_without_a_restart(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue()
    process = Process(tmp_path, "--tls-cert-file", str(pair.cert), "--tls-key-file", str(pair.key))
    try:
        url = httpx.URL(process.url)
        assert url.scheme == "https"
        address = (url.host, url.port or 0)
        first = serial_shown(address, authority)
        assert serial_shown(address, authority) == first
        authority.issue()
        process.send(signal.SIGHUP)
        deadline_s = time.monotonic() + LIMIT_S
        while serial_shown(address, authority) == first:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        pair.key.write_text("spoilt", encoding="utf-8")
        process.send(signal.SIGHUP)
        second = serial_shown(address, authority)
        assert second != first
    finally:
        status, _, err = process.end()
    assert status == 0
    assert "the previous certificate stays in force: tls_key_file" in err


def test_start_with_bad_tls_files_makes_no_database(
    authority: Authority, tmp_path: Path, sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = authority.issue(days=-1)
    options = ["--tls-cert-file", str(pair.cert), "--tls-key-file", str(pair.key), "--port", "0"]
    assert ccatune.run(["serve", "--database", sqlite_url, *options]) == 2
    assert "expected a certificate that is valid at" in capsys.readouterr().err
    assert list(tmp_path.glob("*.db")) == []
