# SPDX-License-Identifier: MIT
"""How commands read keys: private key files with their passphrases, and public keys as texts or files.

    private key   FILE       PEM, as `ccatune keys new` writes it
    public key    FILE.pub   one line with the key in base64; commands also take this line itself

A command that only needs public keys takes them, so that private keys can stay on machines without a network.
A passphrase comes from a file, from standard input (`-`), or from the terminal. It is never the value of an option,
because every user of the machine sees the options of a process.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from serving.signatures import PrivateKey, PublicKey, SignatureError
from serving.signatures.errors import PassphraseRequiredError
from serving.signatures.keys import read_private

Command = TypeVar("Command", bound=Callable[..., Any])

_PUBLIC_TEXT = re.compile(r"[A-Za-z0-9+/]{43}=")
_MAX_FILE_BYTES = 16 * 1024
_MAX_PASSPHRASE_FILE_BYTES = 4096

passphrase_option = click.option(
    "--passphrase-file",
    metavar="FILE",
    help="File whose first line is the key's passphrase; - reads standard input.  [default: the terminal]",
)


def public_path(path: Path) -> Path:
    """Return where the public key of a key file is written."""
    return path.with_name(f"{path.name}.pub")


def make_key(path: Path, *, passphrase: bytes | None = None) -> PrivateKey:
    """Make a private key, and its public key beside it. Files that exist are not replaced. Raises SignatureError."""
    public_file = public_path(path)
    if public_file.exists():
        raise SignatureError(f"{public_file}: expected no file of this name; remove it or choose another")
    made = PrivateKey.generate()
    made.save(path, passphrase=passphrase)
    write_public(path, made)
    return made


def write_public(path: Path, key: PrivateKey) -> None:
    """Write the public key beside the file of its private key. Raises SignatureError; it replaces no file."""
    public_file = public_path(path)
    try:
        with public_file.open("x", encoding="ascii") as written:
            written.write(f"{key.public.text}\n")
    except OSError as error:
        raise SignatureError(
            f"{public_file}: expected to write it, got {error.strerror}; {path} is made, and `ccatune keys show` shows "
            "its public key"
        ) from error


def load_key(path: Path, *, passphrase_file: str | None) -> PrivateKey:
    """Read a private key. An encrypted one needs its passphrase. Raises SignatureError."""
    try:
        return PrivateKey.load(path)
    except PassphraseRequiredError:
        if passphrase_file is not None:
            return PrivateKey.load(path, passphrase=_first_line(passphrase_file))
        if not sys.stdin.isatty():
            raise
    return PrivateKey.load(path, passphrase=_ask(f"Passphrase of {path}"))


def new_passphrase(passphrase_file: str | None, *, is_asked: bool) -> bytes | None:
    """Return the passphrase for a new key, or None for a key without one. Raises SignatureError."""
    if passphrase_file is not None:
        return _first_line(passphrase_file)
    if not is_asked:
        return None
    if not sys.stdin.isatty():
        raise SignatureError("passphrase: expected a terminal to ask on; use --passphrase-file")
    return _ask("Passphrase of the new key", confirmation_prompt="The same passphrase again")


def public_key(word: str, *, passphrase_file: str | None = None) -> PublicKey:
    """Return the public key that a word of the command line names: its text, its file, or a private key's file.

    Raises SignatureError.
    """
    if _PUBLIC_TEXT.fullmatch(word):
        return PublicKey.from_text(word)
    try:
        with Path(word).open("rb") as file:
            content = file.read(_MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise SignatureError(
            f"key {word!r:.100}: expected a public key in base64 (44 characters) or a key's file, got {said}"
        ) from error
    if b"PRIVATE KEY-----" in content:
        return load_key(Path(word), passphrase_file=passphrase_file).public
    text = content.decode("ascii", "replace").strip()
    if not _PUBLIC_TEXT.fullmatch(text):
        raise SignatureError(f"key {word}: expected a file of `ccatune keys new`, got {text!r:.60}")
    return PublicKey.from_text(text)


def _first_line(passphrase_file: str) -> bytes:
    if passphrase_file == "-":  # noqa: S105 - the name of a file
        content = sys.stdin.buffer.readline(_MAX_PASSPHRASE_FILE_BYTES)
    else:
        content = read_private(Path(passphrase_file), "passphrase", max_bytes=_MAX_PASSPHRASE_FILE_BYTES)
    return content.split(b"\n", 1)[0].removesuffix(b"\r")


def _ask(question: str, **options: Any) -> bytes:
    return str(click.prompt(question, hide_input=True, err=True, **options)).encode()
