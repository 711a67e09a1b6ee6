# SPDX-License-Identifier: MIT
"""Reads the agent's token, and checks that nobody else can read a file with a secret.

The token is read before each request, so that a new one needs no restart. It appears in no log, error or report.
A secret's file must belong to root or to the agent's user. Others must have no access to it, and its group may only
read it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from serving.agent.errors import SecretError

# The file that systemd's LoadCredential=ccatune-token:FILE makes for the unit.
CREDENTIAL = "ccatune-token"

_FORBIDDEN_MODE = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
_MAX_TOKEN_BYTES = 4096
# Visible ASCII, so that no token can end the header line that it stands in.
_TOKEN = re.compile(rb"[!-~]+")


def credential_file() -> str | None:
    """Return the path of the token that systemd passed to this unit, or None."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = Path(folder) / CREDENTIAL
    return str(path) if folder and path.exists() else None


def read_token(path: str | os.PathLike[str]) -> str:
    """Return the token in this file. Raises SecretError, with a message that does not contain it."""
    content = read_secret("token_file", path, max_bytes=_MAX_TOKEN_BYTES).strip()
    if not _TOKEN.fullmatch(content):
        raise SecretError(
            f"token_file {os.fspath(path)}: expected one token of visible ASCII characters, got "
            f"{'another text' if content else 'none'}; put the text there that begins with ccat_"
        )
    return content.decode("ascii")


def read_secret(what: str, path: str | os.PathLike[str], *, max_bytes: int) -> bytes:
    """Return the content of a file that nobody else can read. `what` names the setting in errors.

    Raises SecretError where the file cannot be read, is too large, or may be read by others.
    """
    where = f"{what} {os.fspath(path)}"
    try:
        # Without O_NONBLOCK a named pipe in this place would hold the agent.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise SecretError(f"{where}: expected a regular file, got something else")
            _require_private(where, found)
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise SecretError(f"{where}: expected a file that the agent can read, got {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise SecretError(f"{where}: expected at most {max_bytes} bytes, got more")
    return content


def _require_private(where: str, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & _FORBIDDEN_MODE:
        raise SecretError(
            f"{where}: expected a file that others cannot read, got the mode {mode:04o}; chmod it to 0600"
        )
    if found.st_uid not in {0, os.geteuid()}:
        raise SecretError(
            f"{where}: expected root or user {os.geteuid()} as the owner, got user {found.st_uid}; chown it"
        )
