# SPDX-License-Identifier: MIT
"""How commands reach a registry: the options --url and --token-file, and the token from a file or the environment.

A token is never the value of an option, because every user of the machine sees the options of a process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from serving.client import DEFAULT_URL, RegistryClient
from serving.commands.client_tls import client_tls, client_tls_options
from serving.errors import RegistryClientError

__all__ = ["connect", "registry_options", "token_from"]

Command = TypeVar("Command", bound=Callable[..., Any])

_VARIABLE = "CCATUNE_TOKEN"
_FILE_VARIABLE = "CCATUNE_TOKEN_FILE"

_TOKEN = re.compile(r"[!-~]{1,512}")
_MAX_FILE_BYTES = 4096


def registry_options(command: Command) -> Command:
    """Add --url, --token-file and the options for https to a command. `connect` takes the values of the first two."""
    command = client_tls_options(command)
    command = click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File with the token.  [default: the token in ${_VARIABLE}, or the file in ${_FILE_VARIABLE}]",
    )(command)
    return click.option(
        "--url", envvar="CCATUNE_REGISTRY_URL", default=DEFAULT_URL, show_default=True, help="Address of the registry."
    )(command)


def connect(url: str, token_file: Path | None) -> RegistryClient:
    """Return a client of the registry for the running command.

    Raises RegistryClientError where the URL or the token is invalid, and SettingsError where a file for https is.
    """
    return RegistryClient(url, token=token_from(token_file), tls=client_tls())


def token_from(token_file: Path | None) -> str | None:
    """Return the token in the file, else in CCATUNE_TOKEN, else in the file CCATUNE_TOKEN_FILE, else None.

    Raises:
        RegistryClientError: the file cannot be read, or what was found has not the form of a token. The message does
            not repeat it.
    """
    if token_file is not None:
        return _read(token_file)
    if text := os.environ.get(_VARIABLE, "").strip():
        return _checked(text, _VARIABLE)
    if path := os.environ.get(_FILE_VARIABLE, ""):
        return _read(Path(path))
    return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise RegistryClientError(f"{path}: expected a file with a token, got {error.strerror}") from error
    return _checked(content.decode("ascii", "replace").strip(), str(path))


def _checked(text: str, source: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise RegistryClientError(f"{source}: expected one token such as ccat_..., got something else")
    return text
