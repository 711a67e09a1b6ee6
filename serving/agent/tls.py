# SPDX-License-Identifier: MIT
"""A client's side of TLS: which registries it trusts, and the certificate that it shows. Commands use it, too.

The files are read again for a new connection when one of them has changed, so that a renewed certificate needs no
restart.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from serving.agent.errors import SettingsError
from serving.agent.secret import read_secret

_MAX_KEY_BYTES = 64 * 1024

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: authorities to trust (None: the system's), and the client's own certificate and key, if it has one.

    The key may stand in the file of the certificate.
    """

    ca_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None


class ClientTls:
    """Makes the SSL context of a connection."""

    def __init__(self, files: TlsFiles) -> None:
        """Load the files. Raises SettingsError where one cannot be used."""
        self._files = files
        self._seen = self._stamps()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Raises SettingsError where a changed file cannot be used."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._context = self._load()
            self._seen = stamps
        return self._context

    def _load(self) -> ssl.SSLContext:
        files = self._files
        try:
            context = ssl.create_default_context(cafile=files.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"ca_file {files.ca_file}: expected certificates in PEM form, got {error}") from error
        if files.client_cert_file is not None:
            self._load_own(context, files.client_cert_file)
        return context

    def _load_own(self, context: ssl.SSLContext, cert_file: str) -> None:
        key_file = self._files.client_key_file
        what = "client_cert_file" if key_file is None else "client_key_file"
        read_secret(what, key_file or cert_file, max_bytes=_MAX_KEY_BYTES)
        try:
            # Without a passphrase of its own OpenSSL would ask for one at the terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"client_cert_file {cert_file}: expected a certificate and its key without a passphrase, got {error}"
            ) from error

    def _stamps(self) -> tuple[_Stamp | None, ...]:
        files = self._files
        return tuple(_stamp(path) for path in (files.ca_file, files.client_cert_file, files.client_key_file))


def _stamp(path: str | None) -> _Stamp | None:
    """Return what changes with a file's content, or None for no file."""
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
