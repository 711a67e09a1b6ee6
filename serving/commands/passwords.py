# SPDX-License-Identifier: MIT
"""How commands get a new password: from a file, or twice from the terminal. It is never the value of an option."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from serving.agent.settings import read_secret
from serving.errors import SettingsError

_MAX_BYTES = 4096


def new_password(name: str, file: Path | None) -> str:
    """Return the password in the file, or one that is entered twice on the terminal.

    Raises:
        SecretError: the file cannot be read, or others may read it.
        SettingsError: there is no file, and no terminal to ask on.
        PasswordRefusedError: the password is easy to guess.
    """
    # This import loads the registry. `--help` does not need it.
    from serving.people.passwords import require_good

    if file is not None:
        password = read_secret("password_file", file, max_bytes=_MAX_BYTES).decode("utf-8", "replace").strip()
    elif not sys.stdin.isatty():
        raise SettingsError(
            f"password of {name}: expected a terminal to ask for it, got none; run the command on one, or give "
            "--password-file FILE, whose file others cannot read"
        )
    else:
        password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    require_good(password, name=name)
    return password
