# SPDX-License-Identifier: MIT
"""The options of a command for https: the authorities that it trusts, and the certificate that it shows.

A command that has the options calls `client_tls` for their values, so that its own parameters need not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from serving.agent.connection import TlsFiles

__all__ = ["client_tls", "client_tls_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

# (field of TlsFiles, option, variable, help)
_OPTIONS = (
    ("ca_file", "--ca-file", "CCATUNE_CA_FILE", "Certificates (PEM) to trust for https, instead of the system's."),
    (
        "client_cert_file",
        "--client-cert-file",
        "CCATUNE_CLIENT_CERT_FILE",
        "Certificate (PEM) to show it.",
    ),
    (
        "client_key_file",
        "--client-key-file",
        "CCATUNE_CLIENT_KEY_FILE",
        "Its key (PEM), if in a file of its own.",
    ),
)
_META_KEY = "ccatune.client_tls."


def client_tls_options(command: Command) -> Command:
    """Add the options to a command."""
    for name, option, variable, text in reversed(_OPTIONS):
        command = click.option(
            option,
            name,
            type=click.Path(dir_okay=False),
            envvar=variable,
            show_envvar=True,
            expose_value=False,
            callback=_keep,
            help=text,
        )(command)
    return command


def client_tls() -> TlsFiles:
    """Return the files that the running command was given."""
    meta = click.get_current_context().meta
    return TlsFiles(**{name: meta.get(_META_KEY + name) for name, *_ in _OPTIONS})


def _keep(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    ctx.meta[f"{_META_KEY}{parameter.name}"] = value
