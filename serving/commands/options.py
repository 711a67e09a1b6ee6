# SPDX-License-Identifier: MIT
"""The options that commands share: how they reach a registry, and --json.

A command that has the options calls `connect` and the functions of printing.py, which find their values. A token is
never the value of an option, because every user of the machine sees the options of a process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from serving.agent.connection import TlsFiles
from serving.agent.settings import read_token
from serving.client import RegistryClient
from serving.client_requests import DEFAULT_URL, RegistryRequests
from serving.errors import RegistryClientError

Command = TypeVar("Command", bound=Callable[..., Any])
Client = TypeVar("Client", bound=RegistryRequests)


class _File(click.Path):
    """The path of a file. The empty text would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("expected the name of a file, got none", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(dir_okay=False, path_type=Path)

_VARIABLE = "CCATUNE_TOKEN"
_FILE_VARIABLE = "CCATUNE_TOKEN_FILE"
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TOKEN = re.compile(r"[!-~]{1,512}")


def _kept_option(name: str, option: str, **attributes: Any) -> Callable[[Command], Command]:
    """Return an option whose value is kept for `_value` instead of passed to the command."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        ctx.meta[f"ccatune.{name}"] = value

    return click.option(option, name, expose_value=False, callback=keep, **attributes)


def _value(name: str) -> Any:
    return click.get_current_context().meta.get(f"ccatune.{name}")


json_option = _kept_option("as_json", "--json", is_flag=True, help="Print JSON.")

_REGISTRY_OPTIONS = (
    _kept_option(
        "url",
        "--url",
        envvar="CCATUNE_REGISTRY_URL",
        default=DEFAULT_URL,
        show_default=True,
        help="Address of the registry.",
    ),
    _kept_option(
        "token_file",
        "--token-file",
        type=FILE,
        help=f"File with the token.  [default: the token in ${_VARIABLE}, or the file in ${_FILE_VARIABLE}]",
    ),
    *(
        _kept_option(name, option, type=click.Path(dir_okay=False), envvar=variable, show_envvar=True, help=text)
        for name, option, variable, text in (
            (
                "ca_file",
                "--ca-file",
                "CCATUNE_CA_FILE",
                "Certificates (PEM) to trust for https, instead of the system's.",
            ),
            ("client_cert_file", "--client-cert-file", "CCATUNE_CLIENT_CERT_FILE", "Certificate (PEM) to show it."),
            (
                "client_key_file",
                "--client-key-file",
                "CCATUNE_CLIENT_KEY_FILE",
                "Its key (PEM), if in a file of its own.",
            ),
        )
    ),
)


def seconds_of(text: str) -> int | None:
    """Return the seconds of a time such as 90d, 12h, 30m or 45s, or None for another text."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    return None if found is None else int(found[1]) * _UNITS_S[found[2]]


def registry_options(command: Command) -> Command:
    """Add --url, --token-file and the options for https to a command, which calls `connect`."""
    for option in reversed(_REGISTRY_OPTIONS):
        command = option(command)
    return command


def is_json() -> bool:
    """Whether the running command has --json."""
    return bool(_value("as_json"))


def connect() -> RegistryClient:
    """Return a client of the registry for the running command. Raises as `connect_as`."""
    return connect_as(RegistryClient)


def connect_as(kind: type[Client]) -> Client:
    """Return a client of this class.

    Raises RegistryClientError where the URL or the token is invalid, and SettingsError where a file for https is.
    """
    tls = TlsFiles(**{name: _value(name) for name in ("ca_file", "client_cert_file", "client_key_file")})
    return kind(_value("url"), token=token_from(_value("token_file")), tls=tls)


def token_from(token_file: Path | None) -> str | None:
    """Return the token in the file, else in CCATUNE_TOKEN, else in the file CCATUNE_TOKEN_FILE, else None.

    Raises:
        SecretError: the file cannot be read, others may read it, or it does not hold a token.
        RegistryClientError: the variable does not hold a token. No message repeats what was found.
    """
    if token_file is not None:
        return read_token(token_file)
    if text := os.environ.get(_VARIABLE, "").strip():
        if not _TOKEN.fullmatch(text):
            raise RegistryClientError(f"{_VARIABLE}: expected one token such as ccat_..., got something else")
        return text
    if path := os.environ.get(_FILE_VARIABLE, ""):
        return read_token(path)
    return None
