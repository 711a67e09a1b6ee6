# SPDX-License-Identifier: MIT
"""How commands get a new password: from a file, or twice from the terminal. It is never the value of an option."""

from __future__ import annotations

from pathlib import Path

import click

from serving.agent.settings import read_secret

_MAX_BYTES = 4096


def new_password(name: str, file: Path | None) -> str:
    """Return the password in the file, or one that is entered twice on the terminal.

    Raises:
        SecretError: the file cannot be read, or others may read it.
        PasswordRefusedError: the password is easy to guess.
    """
    # This import loads the registry. `--help` does not need it.
    from serving.people.passwords import require_good

    if file is not None:
        password = read_secret("password_file", file, max_bytes=_MAX_BYTES).decode("utf-8", "replace").strip()
    else:
        password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    require_good(password, name=name)
    return password
