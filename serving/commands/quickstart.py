# SPDX-License-Identifier: MIT
"""The command `ccatune quickstart`: a signed service on a new server, in one folder (docs/quickstart.md)."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kmod.terminal import COLUMNS, echo
from serving.commands.options import FILE, is_json, json_option
from serving.commands.printing import print_answer
from serving.commands.quickstart_plan import AGENT_CONFIG, AUTHORITIES, CONFIG, Plan, check_database_url, make_plan

if TYPE_CHECKING:
    from serving.commands.quickstart_steps import Step

_FOLDER = "Folder for all files.  [default: /etc/ccatune as root, else ./ccatune]"


def _database(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return check_database_url(value)


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help=_FOLDER)
@click.option("--registry-name", "registry", help="Name of the registry, for ever.  [default: local]")
@click.option("--database", "database_url", envvar="CCATUNE_DATABASE_URL", show_envvar=True, callback=_database,
              help="sqlite:///FILE or postgresql://USER@HOST/NAME.  [default: a file of SQLite]")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), help="TCP port.  [default: 8640]")
@click.option(
    "--tls-cert-file", type=FILE, help="PEM file of the server's certificates. Without it: this machine alone."
)
@click.option("--tls-key-file", type=FILE, help="PEM file of its key, which others cannot read.")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1, with TLS all]")
@click.option("--host-name", help="Name in the certificate, by which agents reach the registry.  [default: the host's]")
@click.option("--ca-file", type=FILE, help="Authorities (PEM) that agents trust, instead of the system's.")
@click.option("--cca", "ccas", multiple=True, default=("gr",), show_default=True,
              help="Algorithm of the agents; may be repeated.")  # fmt: skip
@click.option("--channel", default="champion", show_default=True, help="Channel that the agents follow.")
@click.option("--agent", "agents", multiple=True, metavar="NAME",
              help="Further server, for which files are made; may be repeated. Needs TLS.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be made, and make nothing.")
@json_option
def quickstart(
    *,
    folder: Path | None,
    host_name: str | None,
    ccas: tuple[str, ...],
    channel: str,
    agents: tuple[str, ...],
    ca_file: Path | None,
    dry_run: bool,
    **given: Any,
) -> None:
    """Set up a signed service on a new server: keys, root document, database, tokens, and settings of both programs.

    What exists is kept, so the command can be repeated, and finishes a run that was interrupted. The last lines are
    the commands that lead to the first table in force.

    \b
    Example:
      ccatune quickstart
      ccatune quickstart --tls-cert-file /etc/ssl/registry.pem --tls-key-file /etc/ssl/private/registry.key \\
        --host-name registry.example --agent web-1 --agent web-2
    """
    given["host_names"] = None if host_name is None else (host_name,)
    plan = make_plan(folder, ccas=ccas, channel=channel, agents=agents, ca_file=ca_file, **given)
    # These imports load the database. `--help` does not need it.
    from serving.commands.quickstart_steps import Quickstart
    from serving.registry.app import utc_now

    steps: list[Step] = []

    def tell(step: Step) -> None:
        steps.append(step)
        if not is_json():
            line = f"{step.state} {step.what}: {step.text}."
            echo(textwrap.fill(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))

    Quickstart(plan, is_dry=dry_run, now=utc_now(), tell=tell).run()
    answer = {
        "folder": str(plan.folder),
        "url": plan.url,
        "steps": [asdict(step) for step in steps],
        "next": next_commands(plan),
    }
    print_answer(answer, lambda: _print_end(plan))


def next_commands(plan: Plan) -> list[str]:
    """Return the commands that follow, up to the first table in force."""
    folder = plan.folder
    url = [] if plan.url == "http://127.0.0.1:8640" else ["--url", plan.url]
    trust = ["--ca-file", str(folder / AUTHORITIES)] if plan.has_authorities else []
    cca = plan.ccas[0]
    publish = ["ccatune", "publish", f"{cca}.json", "--channel", plan.channel]
    own = ["--config", str(folder / AGENT_CONFIG)]
    commands = {
        "serve": ["systemctl", "enable", "--now", "ccatune-api"],
        "sign": ["ccatune", "sign", f"{cca}.json", "--key", str(folder / "offline" / "publisher.pem")],
        "publish": [*publish, "--token-file", str(folder / "publisher.token"), *url, *trust],
        "enable": ["ccatune-agent", "enable", cca],
        "agent": ["systemctl", "enable", "--now", "ccatune-agent"],
        "status": ["ccatune-agent", "status", "--within-s", "60"],
    }
    if not plan.is_system:
        commands["serve"] = ["ccatune", "serve", "--config", str(folder / CONFIG)]
        commands["agent"] = ["ccatune-agent", *own]
        commands["status"] = ["ccatune-agent", *own, "status", "--within-s", "60"]
    return [shlex.join(words) for words in commands.values()]


def _print_end(plan: Plan) -> None:
    if not plan.settings.has_tls:
        echo(
            "\nThere is no TLS, so the registry answers this machine alone. Agents of other\n"
            "servers need --tls-cert-file and --tls-key-file (docs/registry.md)."
        )
    keys = plan.folder / "offline"
    echo(f"\nOnce the first table is in force, move {keys} off this server:\nwhoever has its keys can sign tables.")
    echo("\nNext, with a table such as `ccatune train` writes:")
    for line in next_commands(plan):
        stays = not plan.is_system and line.endswith((CONFIG, AGENT_CONFIG))
        echo(f"  {line}{'    # in a terminal of its own' if stays else ''}")
