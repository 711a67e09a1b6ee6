# SPDX-License-Identifier: MIT
"""Ed25519 keys (RFC 8032) and their files.

    key id       SHA-256 of the 32 bytes of the public key, in hexadecimal
    public key   its 32 bytes in base64
    key file     the private key as PEM (PKCS #8), encrypted if a passphrase is given

A key file must be a regular file that other users cannot read. What counts is the file that a symbolic link leads to.
A key file of root may be readable by a group, if this process is not root: systemd passes credentials in this way.

A public key of low order is refused: anyone can make signatures that hold under it, and no honest key has this form.
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

from serving.signatures.errors import PassphraseRequiredError, SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KEY_BYTES = 32
SIGNATURE_BYTES = 64
_MAX_FILE_BYTES = 16 * 1024
_MAX_PASSPHRASE_BYTES = 1023
# The points of the curve whose order divides 8, by their y coordinate (RFC 8032, p = 2^255 - 19). The last two are
# other encodings of 0 and 1. _Y_ORDER_8 solves 2 y^2 = 1 - d y^4. The highest bit of a public key is the sign of x.
_P = 2**255 - 19
_Y_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_LOW_ORDER_Y = frozenset({0, 1, _P - 1, _Y_ORDER_8, _P - _Y_ORDER_8, _P, _P + 1})
_SIGN_BIT = 1 << 255


def has_cryptography() -> bool:
    """Whether the package `cryptography` is installed. Does not import it."""
    return importlib.util.find_spec("cryptography") is not None


def from_base64(text: object, what: str) -> bytes:
    """Return the bytes of a base64 text. Raises SignatureError."""
    try:
        if not isinstance(text, str):
            raise ValueError(type(text).__name__)
        raw = base64.b64decode(text, validate=True)
        # Unused bits of the last character could differ without this check: one value would have several texts.
        if base64.b64encode(raw).decode("ascii") != text:
            raise ValueError("another form")
        return raw
    except (ValueError, binascii.Error) as error:
        raise SignatureError(f"{what}: expected base64, got {text!r:.60}") from error


@dataclass(frozen=True)
class PublicKey:
    """A public key. Raises SignatureError unless `raw` has 32 bytes and is not of low order."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise SignatureError(f"public key: expected {KEY_BYTES} bytes, got {len(self.raw)}")
        if int.from_bytes(self.raw, "little") & ~_SIGN_BIT in _LOW_ORDER_Y:
            raise SignatureError(
                "public key: expected one that `ccatune keys new` made, got one that anyone can sign for"
            )

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
        """Whether this is the key's signature of the message. Raises SignatureError where Ed25519 is not supported."""
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        except UnsupportedAlgorithm as error:
            raise SignatureError(f"expected an OpenSSL that supports Ed25519, got one without it ({error})") from error
        return True


class PrivateKey:
    """A private key. Its text and `repr` never contain the key itself."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._key = key
        # `public_bytes_raw` would need cryptography 40, and Debian 12 has 38.
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
            PassphraseRequiredError: the key is encrypted, and no passphrase was given.
            SignatureError: the file cannot be read, others may read it, the passphrase is wrong, or the file holds no
                Ed25519 key.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        _require_passphrase(path, passphrase)
        content = read_private(path, "key", max_bytes=_MAX_FILE_BYTES)
        try:
            key = load_pem_private_key(content, password=passphrase)
        except TypeError as error:
            if passphrase:
                raise SignatureError(f"key {path}: expected no passphrase, for the key is not encrypted") from error
            raise PassphraseRequiredError(f"key {path}: expected its passphrase, for the key is encrypted") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SignatureError(
                f"key {path}: expected a private key as PEM and its passphrase, it cannot be decoded"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise SignatureError(f"key {path}: expected an Ed25519 key, got another kind; `ccatune keys new` makes one")
        return PrivateKey(key)

    def save(self, path: Path, *, passphrase: bytes | None = None) -> None:
        """Write the key to a new file that only its owner may read. Raises SignatureError; it replaces no file.

        passphrase: 1 to 1023 bytes, or None to write the key unencrypted.
        """
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        _require_passphrase(path, passphrase)
        protection = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
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


def _require_passphrase(path: Path, passphrase: bytes | None) -> None:
    if passphrase is not None and not 1 <= len(passphrase) <= _MAX_PASSPHRASE_BYTES:
        raise SignatureError(
            f"key {path}: expected a passphrase of 1 to {_MAX_PASSPHRASE_BYTES} bytes, got {len(passphrase)}"
        )


def read_private(path: Path, what: str, *, max_bytes: int) -> bytes:
    """Return the content of a regular file that other users cannot read. Raises SignatureError."""
    try:
        # O_NONBLOCK, because opening a pipe without a writer would wait for one.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if problem := _exposure(found, user_id=os.geteuid()):
                raise SignatureError(f"{what} {path}: expected a file that its owner alone may read, {problem}")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise SignatureError(f"{what} {path}: expected a file, it cannot be read ({error.strerror})") from error
    except ValueError as error:  # a NUL in the path
        raise SignatureError(f"{what} {str(path)!r:.100}: expected the path of a file") from error
    if len(content) > max_bytes:
        raise SignatureError(f"{what} {path}: expected at most {max_bytes} bytes, got more")
    return content


def _exposure(found: os.stat_result, *, user_id: int) -> str:
    """Return how others could read or change the file, or an empty text."""
    shown = stat.filemode(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        return f"its mode is {shown}, which is no regular file's"
    if found.st_uid not in {user_id, 0}:
        return f"it belongs to user {found.st_uid}; chown it to the user of this program"
    through_group = found.st_uid == 0 and user_id != 0
    forbidden = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if through_group else stat.S_IRWXG)
    if found.st_mode & forbidden:
        return f"its mode is {shown}; chmod 600 it, and replace the key if others may have read it"
    return ""
