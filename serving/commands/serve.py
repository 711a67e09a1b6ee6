# SPDX-License-Identifier: MIT
"""The command `ccatune serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kmod.ensemble import write_atomically
from serving.commands.options import FILE, json_option
from serving.commands.passwords import new_password
from serving.commands.printing import print_facts
from serving.errors import SettingsError
from serving.settings import ServingSettings, load_settings

if TYPE_CHECKING:
    from serving.context import Context


@click.command()
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Settings, as in configs/serving/."
)
@click.option(
    "--database",
    "database_url",
    envvar="CCATUNE_DATABASE_URL",
    show_envvar=True,
    help="sqlite:///FILE or postgresql://USER@HOST/NAME.  [default: sqlite:///ccatune.db]",
)
@click.option(
    "--role",
    type=click.Choice(["all", "api", "controller"]),
    help="Answer requests, judge roll-outs and do the other work in the background, or both.  [default: all]",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="TCP port; 0 takes a free one.  [default: 8640]")
@click.option(
    "--registry-name",
    "registry",
    help="Name that deployments carry; kept at the first start.  [default: local]",
)
@click.option("--migrate/--no-migrate", default=None, help="Bring the database's schema up to date first.")
@click.option("--tls-cert-file", type=FILE, help="PEM file of the server's certificates, for https.")
@click.option("--tls-key-file", type=FILE, help="PEM file of its key, which others cannot read.")
@click.option("--client-ca-file", type=FILE, help="PEM file of authorities for clients' certificates.")
@click.option(
    "--insecure-bind-anyway",
    "insecure_bind",
    is_flag=True,
    help="Listen without TLS on an address that others can reach, for example behind a proxy with TLS.",
)
@click.option("--open", "is_open", is_flag=True, help="Serve this machine alone, without accounts.")
@click.option("--init", is_flag=True, help="Make the database and the first token, print the token, and exit.")
@click.option("--again", is_flag=True, help="With --init, if all tokens are lost: make another one.")
@click.option(
    "--token-file",
    type=FILE,
    help="With --init: write the token to this new file, with mode 0600, instead of printing it.",
)
@click.option("--person", help="With --init: make a person of this name, who logs in to the pages, with all rights.")
@click.option(
    "--password-file",
    type=FILE,
    help="With --person: the file with the password, which others cannot read.  [default: ask on the terminal]",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    help="Name besides localhost that the Host header of requests may contain; may be repeated.",
)
@click.option(
    "--signing-key-file",
    type=FILE,
    help="Private key with which deployments are signed, as `ccatune keys new` makes it.",
)
@click.option(
    "--signature-validity-s",
    type=int,
    help="How long a deployment's signature is valid.  [default: 604800, 7 days]",
)
@click.option("--log", type=click.Choice(["text", "json"]), help="Form of the log on stderr.  [default: text]")
@click.option("--access-log/--no-access-log", default=None, help="Log each answer, not only faults and slow ones.")
@click.option(
    "--telemetry/--no-telemetry",
    default=None,
    help="Send traces of requests to OTEL_EXPORTER_OTLP_ENDPOINT; needs the extra `telemetry`.",
)
@click.option(
    "--ready-file",
    type=FILE,
    help="Write the URL there once requests are answered; removed at the end.",
)
@json_option
def serve(
    *,
    config: Path | None,
    insecure_bind: bool,
    is_open: bool,
    init: bool,
    again: bool,
    token_file: Path | None,
    person: str | None,
    password_file: Path | None,
    host_names: tuple[str, ...],
    ready_file: Path | None,
    **settings_given: Any,
) -> None:
    """Run the registry and its API until SIGTERM or Ctrl-C.

    Requests need a token. --init makes the first one, and `ccatune tokens create` the others. People log in to the
    pages. --init --person makes the first account, and `ccatune people add` the others. With --open nobody needs
    either, and only this machine reaches the registry.

    \b
    Example:
      ccatune serve --database sqlite:///registry.db --init --token-file admin.token --person alice
      ccatune serve --database sqlite:///registry.db --port 8640
      ccatune serve --host 0.0.0.0 --tls-cert-file registry.pem --tls-key-file registry.key
      ccatune serve --log json --access-log
      CCATUNE_DATABASE_URL=postgresql://ccatune@/ccatune ccatune serve --registry-name lab
    """
    if (again or token_file is not None or person is not None) and not init:
        raise click.UsageError("--again, --token-file, --person: expected --init with them")
    if password_file is not None and person is None:
        raise click.UsageError("--password-file: expected --person with it")
    if init and is_open:
        raise click.UsageError("--init: expected no --open with it, for an open registry has no tokens")
    settings = load_settings(
        config,
        insecure_bind=insecure_bind or None,
        open=is_open or None,
        host_names=host_names or None,
        **settings_given,
    )
    if init:
        _make_admin_token(settings, again=again, token_file=token_file, person=person, password_file=password_file)
        return
    # This import loads FastAPI and the database. `--help` needs neither.
    from serving.agent.loop import notify_systemd
    from serving.registry.server import serve_until_stopped

    ready = _ReadyFile(ready_file)

    def tell(url: str, context: Context) -> None:
        facts = {
            "registry": context.registry,
            "database": context.database.shown_url,
            "docs": f"{url}/v1/docs",
            "url": url,
        }
        print_facts(facts)
        ready.write(url)
        notify_systemd()

    try:
        serve_until_stopped(settings, on_bound=ready.take, on_listening=tell)
    finally:
        ready.remove()


def _make_admin_token(
    settings: ServingSettings, *, again: bool, token_file: Path | None, person: str | None, password_file: Path | None
) -> None:
    from serving.access.first import make_admin_token, require_person_name
    from serving.people.passwords import hash_now
    from serving.registry.app import utc_now

    admin = None
    if person is not None:
        admin = (require_person_name(person), hash_now(new_password(person, password_file)))
    new, registry = make_admin_token(settings, is_first=not again, token_file=token_file, person=admin, now=utc_now())
    where = {"token": new.text} if token_file is None else {"file": str(token_file)}
    made = {"registry": registry, "principal": "admin", "id": new.public_id, **where}
    print_facts(made if person is None else {**made, "person": person})


class _ReadyFile:
    """The file that contains the URL while the registry answers requests. Without a path all methods do nothing."""

    def __init__(self, path: Path | None) -> None:
        """Raise SettingsError where the path's folder does not exist."""
        if path is not None and not path.parent.is_dir():
            raise SettingsError(f"--ready-file {path}: expected the folder {path.parent} to exist; make it first")
        self._path = path
        self._is_taken = False

    def take(self) -> None:
        """Remove a file that a killed process left. Before the port is bound it may belong to a running registry."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._is_taken = True

    def write(self, url: str) -> None:
        """Write the registry's URL to the file. Raises SettingsError where it cannot be written."""
        if self._path is None:
            return
        try:
            write_atomically(self._path, f"{url}\n".encode())
        except OSError as error:
            raise SettingsError(
                f"--ready-file {self._path}: expected a file that can be written, got {error.strerror}"
            ) from error

    def remove(self) -> None:
        """Remove the file if it belongs to this process, because `take` was called."""
        if self._is_taken and self._path is not None:
            self._path.unlink(missing_ok=True)
