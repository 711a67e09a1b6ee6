# SPDX-License-Identifier: MIT
"""The command `ccatune serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from serving.commands.printing import print_facts
from serving.commands.ready_file import ReadyFile
from serving.settings import ServingSettings, load_settings

if TYPE_CHECKING:
    from serving.context import Context

__all__ = ["serve"]

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings, as in configs/serving/."
)
@click.option(
    "--database",
    envvar="CCATUNE_DATABASE_URL",
    show_envvar=True,
    help="sqlite:///FILE or postgresql://USER@HOST/NAME.  [default: sqlite:///ccatune.db]",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="TCP port; 0 takes a free one.  [default: 8640]")
@click.option(
    "--registry-name",
    "registry",
    help="Name that deployments carry; kept at the first start.  [default: local]",
)
@click.option("--migrate/--no-migrate", default=None, help="Bring the database's schema up to date first.")
@click.option("--tls-cert-file", type=_file, help="PEM file of the server's certificates, for https.")
@click.option("--tls-key-file", type=_file, help="PEM file of its key, which others cannot read.")
@click.option("--client-ca-file", type=_file, help="PEM file of authorities for clients' certificates.")
@click.option(
    "--insecure-bind-anyway",
    is_flag=True,
    help="Listen without TLS on an address that others can reach, for example behind a proxy with TLS.",
)
@click.option("--open", "is_open", is_flag=True, help="Serve this machine alone, without accounts.")
@click.option("--init", is_flag=True, help="Make the database and the first token, print the token, and exit.")
@click.option("--again", is_flag=True, help="With --init, if all tokens are lost: make another one.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --init: write the token to this new file, with mode 0600, instead of printing it.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    help="Name besides localhost that the Host header of requests may contain; may be repeated.",
)
@click.option(
    "--signing-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Private key with which deployments are signed, as `ccatune keys new` makes it.",
)
@click.option(
    "--signature-validity-s",
    type=int,
    help="How long a deployment's signature is valid.  [default: 604800, 7 days]",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the URL there once requests are answered; removed at the end.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def serve(
    *,
    config: Path | None,
    database: str | None,
    host: str | None,
    port: int | None,
    registry: str | None,
    migrate: bool | None,
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
    client_ca_file: Path | None,
    insecure_bind_anyway: bool,
    is_open: bool,
    init: bool,
    again: bool,
    token_file: Path | None,
    host_names: tuple[str, ...],
    signing_key_file: Path | None,
    signature_validity_s: int | None,
    ready_file: Path | None,
    as_json: bool,
) -> None:
    """Run the registry and its API until SIGTERM or Ctrl-C.

    Requests need a token. --init makes the first one, and `ccatune tokens create` the others. With --open none is
    needed, and only this machine reaches the API.

    \b
    Example:
      ccatune serve --database sqlite:///registry.db --init --token-file admin.token
      ccatune serve --database sqlite:///registry.db --port 8640
      ccatune serve --host 0.0.0.0 --tls-cert-file registry.pem --tls-key-file registry.key
      CCATUNE_DATABASE_URL=postgresql://ccatune@/ccatune ccatune serve --registry-name lab
    """
    if (again or token_file is not None) and not init:
        raise click.UsageError("--again, --token-file: expected --init with them")
    if init and is_open:
        raise click.UsageError("--init: expected no --open with it, for an open registry has no tokens")
    settings = load_settings(
        config,
        database_url=database,
        host=host,
        port=port,
        registry=registry,
        migrate=migrate,
        tls_cert_file=tls_cert_file,
        tls_key_file=tls_key_file,
        client_ca_file=client_ca_file,
        insecure_bind=insecure_bind_anyway or None,
        open=is_open or None,
        host_names=host_names or None,
        signing_key_file=signing_key_file,
        signature_validity_s=signature_validity_s,
    )
    if init:
        _make_admin_token(settings, again=again, token_file=token_file, as_json=as_json)
        return
    # This import loads FastAPI and the database. `--help` needs neither.
    from serving.http.server import serve_until_stopped

    ready = ReadyFile(ready_file)

    def tell(url: str, context: Context) -> None:
        facts = {
            "registry": context.registry,
            "database": context.database.shown_url,
            "docs": f"{url}/v1/docs",
            "url": url,
        }
        print_facts(facts, as_json=as_json)
        ready.write(url)

    with ready:
        serve_until_stopped(settings, on_bound=ready.take, on_listening=tell)


def _make_admin_token(settings: ServingSettings, *, again: bool, token_file: Path | None, as_json: bool) -> None:
    from serving.access.first import make_admin_token
    from serving.app import utc_now

    new, name = make_admin_token(settings, is_first=not again, token_file=token_file, now=utc_now())
    where = {"token": new.text} if token_file is None else {"file": str(token_file)}
    print_facts({"registry": name, "principal": "admin", "id": new.public_id, **where}, as_json=as_json)
