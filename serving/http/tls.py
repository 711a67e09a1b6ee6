# SPDX-License-Identifier: MIT
"""TLS of the registry: makes the SSL context from certificate files, and replaces a renewed certificate while it runs.

- TLS 1.2 or newer.
- The certificate must be valid now, and the key must belong to it, have no passphrase and not be readable by others.
- With a file of client certificate authorities, a client must show a certificate that one of them signed.
- A renewed certificate applies to new connections. If it is invalid, the previous one stays in force, and the log says
  why. The file of client certificate authorities is read only at the start.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from serving.agent.connection import FileStamp, file_stamp
from serving.errors import SettingsError
from serving.settings import ServingSettings

# Permissions that a key's file must not have: any for others, and any but reading for the group.
_FORBIDDEN_MODE = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP

Clock = Callable[[], datetime]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of a server: its certificate with the intermediate ones, its key, and authorities of clients."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class RegistryTls:
    """The SSL context of a registry. All connections share it, and `reload` changes its certificate."""

    def __init__(self, files: TlsFiles, *, clock: Clock = lambda: datetime.now(tz=UTC)) -> None:
        """Make the context. Raises SettingsError where a file cannot be used."""
        self._files = files
        self._clock = clock
        self._seen = self._stamps()
        self.context = _new_context()
        self._load()
        if files.client_ca is not None:
            _require_clients_of(self.context, files.client_ca)

    def reload(self) -> bool:
        """Load the certificate again. Where that fails, keep the previous one, log the reason, and return False."""
        self._seen = self._stamps()
        try:
            self._load()
        except SettingsError as error:
            _log.warning("the previous certificate stays in force: %s", error)
            return False
        _log.info("certificate %s was loaded again", self._files.cert)
        return True

    async def reload_if_changed(self) -> None:
        """Reload the certificate if one of its files changed since the last attempt."""
        if self._stamps() != self._seen:
            self.reload()

    def _load(self) -> None:
        _check(self._files, now=self._clock())
        # A pair that a library refuses must not reach the live context, which would then hold half of it.
        for context in (_new_context(), self.context):
            try:
                context.load_cert_chain(self._files.cert, self._files.key, password=_no_passphrase)
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(
                    f"tls_cert_file {self._files.cert}: expected a certificate and a key that TLS can use, got {error}"
                ) from error

    def _stamps(self) -> list[FileStamp | None]:
        return [file_stamp(path) for path in (self._files.cert, self._files.key)]


def tls_of(settings: ServingSettings) -> RegistryTls | None:
    """Return the TLS that the settings require, or None for plain HTTP. Raises SettingsError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return RegistryTls(TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file))


def certificate_ends_at(path: Path) -> datetime:
    """Return when the certificate of a PEM file expires. Raises SettingsError."""
    return _certificate(path).not_valid_after_utc


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _require_clients_of(context: ssl.SSLContext, client_ca: Path) -> None:
    try:
        context.load_verify_locations(client_ca)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"client_ca_file {client_ca}: expected certificates in PEM form, got {_reason(error)}"
        ) from error
    context.verify_mode = ssl.CERT_REQUIRED


def _check(files: TlsFiles, *, now: datetime) -> None:
    """Raise SettingsError unless the certificate is valid at this time and the key belongs to it."""
    certificate = _certificate(files.cert)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise SettingsError(
            f"tls_cert_file {files.cert}: expected a certificate that is valid at {now:%Y-%m-%d %H:%M} UTC, got one "
            f"from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M}; renew it, or correct the clock"
        )
    try:
        key = load_pem_private_key(_read_key(files.key), password=None)
    except TypeError as error:
        raise SettingsError(
            f"tls_key_file {files.key}: expected a key without a passphrase, got one with; "
            "`openssl pkey -in KEY -out NEW` removes it"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(
            f"tls_key_file {files.key}: expected a private key in PEM form, got another text"
        ) from error
    if key.public_key() != certificate.public_key():
        raise SettingsError(
            f"tls_key_file {files.key}: expected the key of the first certificate in {files.cert}, got another one; "
            "put the server's own certificate before the intermediate ones"
        )


def _certificate(path: Path) -> x509.Certificate:
    """Return the first certificate of a PEM file, which is the server's own."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise SettingsError(f"tls_cert_file {path}: expected a certificate, got {_reason(error)}") from error
    except (ValueError, IndexError) as error:
        raise SettingsError(f"tls_cert_file {path}: expected a certificate in PEM form, got another text") from error


def _read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & _FORBIDDEN_MODE:
                raise SettingsError(
                    f"tls_key_file {path}: expected a key that others cannot read, got the mode {mode:04o}; "
                    f"`chmod 0600 {path}`, or 0640 for a group that may read it"
                )
            return file.read()
    except OSError as error:
        raise SettingsError(f"tls_key_file {path}: expected a private key, got {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _no_passphrase() -> str:
    """Return no passphrase for a key that needs one. Otherwise OpenSSL would ask for it at the terminal."""
    return ""
