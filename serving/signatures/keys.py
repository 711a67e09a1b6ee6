# SPDX-License-Identifier: MIT
"""Ed25519 keys (RFC 8032) and their files.

    key id       SHA-256 of the 32 bytes of the public key, in hexadecimal
    public key   its 32 bytes in base64
    key file     the private key as PEM (PKCS #8), encrypted if a passphrase is given

A key file that other users may read is refused, and so is one that is a symbolic link to such a file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import importlib.util
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from serving.signatures.errors import SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KEY_BYTES", "SIGNATURE_BYTES", "PrivateKey", "PublicKey", "from_base64", "has_cryptography"]

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_MAX_FILE_BYTES = 16 * 1024


def has_cryptography() -> bool:
    """Whether the package `cryptography` is installed. Does not import it."""
    return importlib.util.find_spec("cryptography") is not None


def from_base64(text: object, what: str) -> bytes:
    """Return the bytes of a base64 text. Raises SignatureError."""
    try:
        if not isinstance(text, str):
            raise ValueError(type(text).__name__)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise SignatureError(f"{what}: expected base64, got {text!r:.60}") from error


@dataclass(frozen=True)
class PublicKey:
    """A public key. Raises SignatureError unless `raw` has 32 bytes."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise SignatureError(f"public key: expected {KEY_BYTES} bytes, got {len(self.raw)}")

    @cached_property
    def key_id(self) -> str:
        """The key's id."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def text(self) -> str:
        """The key in base64."""
        return base64.b64encode(self.raw).decode("ascii")

    @staticmethod
    def from_text(text: object) -> PublicKey:
        """Return the key of a base64 text. Raises SignatureError."""
        return PublicKey(from_base64(text, "public key"))

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this is the key's signature of the message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class PrivateKey:
    """A private key. Its text and `repr` never contain the key itself."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = key
        # `public_bytes_raw` is shorter, but version 38 of the package, that of Debian 12, does not have it.
        self.public = PublicKey(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.key_id[:16]})"

    @staticmethod
    def generate() -> PrivateKey:
        """Make a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return PrivateKey(Ed25519PrivateKey.generate())

    @staticmethod
    def load(path: Path, *, passphrase: bytes | None = None) -> PrivateKey:
        """Read a key file.

        Raises:
            SignatureError: the file cannot be read, others may read it, the passphrase is missing or wrong, or the
                file holds no Ed25519 key.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        content = _read_private(path)
        try:
            key = load_pem_private_key(content, password=passphrase)
        except TypeError as error:
            state = (
                "no passphrase, for the key is not encrypted" if passphrase else "a passphrase, the key is encrypted"
            )
            raise SignatureError(f"key {path}: expected {state}") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SignatureError(
                f"key {path}: expected a private key as PEM and its passphrase, it cannot be decoded"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(f"key {path}: expected an Ed25519 key, got another kind; `ccatune key new` makes one")
        return PrivateKey(key)

    def save(self, path: Path, *, passphrase: bytes | None = None) -> None:
        """Write the key to a new file that only its owner may read. Raises SignatureError; it replaces no file."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        protection = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise SignatureError(f"key {path}: expected no file of this name; remove it or choose another") from error
        except OSError as error:
            raise SignatureError(f"key {path}: expected to write it, got {error.strerror}") from error
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(pem)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise SignatureError(f"key {path}: expected to write it, got {error.strerror}") from error

    def sign(self, message: bytes) -> bytes:
        """Return the signature of the message: 64 bytes, always the same for one message."""
        return self._key.sign(message)


def _read_private(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SignatureError(
                    f"key {path}: expected a file that its owner alone may read, its mode is {stat.filemode(mode)}; "
                    "chmod 600 it, and replace the key if others may have read it"
                )
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise SignatureError(f"key {path}: expected a key file, it cannot be read ({error.strerror})") from error
