# SPDX-License-Identifier: MIT
"""The commands `ccatune publish`, `channel`, `ensembles` and `agents`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kmod.coverage import training_warnings
from kmod.ensemble import Ensemble
from serving._connecting import connect, registry_options
from serving._printing import age_in_words, print_facts, print_move, print_table
from serving._publishing import print_published, upload_signatures
from serving._signed_files import read_signature
from serving.client import require_channel, require_note
from serving.errors import RegistryClientError

__all__ = ["agents", "channel", "ensembles", "publish"]

Json = dict[str, Any]

_DEPLOYMENT_COLUMNS = ("serial", "digest", "hold_back_permille", "urgent", "deployed_at", "restores_serial", "note")
_SHOWN = ("registry", "cca", "channel", *_DEPLOYMENT_COLUMNS)
_CHANNEL_COLUMNS = ("cca", "channel", "serial", "digest", "hold_back_permille", "urgent", "deployed_at")
_AGENT_COLUMNS = (
    "agent_id", "cca", "channel", "state", "offered_serial", "effective_serial", "effective_digest", "age", "shared_id",
    "error",
)  # fmt: skip
_ENSEMBLE_COLUMNS = ("digest", "cca", "n_states", "n_classes", "size_bytes", "published_at")

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_note_option = click.option("--note", default="", help="Why, for those who read the history.")
_hold_back_option = click.option(
    "--hold-back-permille",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Share of flows that do not use the ensemble.",
)
_urgent_option = click.option(
    "--urgent/--no-urgent",
    default=None,
    help="Running flows take the table at once, instead of at the end of their epoch.  [default: no-urgent]",
)
_rollback_urgent_option = click.option(
    "--urgent/--no-urgent",
    default=None,
    help="Running flows take the table at once, instead of at the end of their epoch.  [default: urgent]",
)
_if_serial_option = click.option(
    "--if-serial", type=click.IntRange(min=0), help="Move only where the channel stands at this serial (0: at none)."
)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--channel", "channel_name", help="Point this channel of its algorithm to the ensemble, too.")
@_hold_back_option
@_urgent_option
@_note_option
@registry_options
@_json_option
def publish(
    *,
    files: tuple[Path, ...],
    channel_name: str | None,
    hold_back_permille: int,
    urgent: bool | None,
    note: str,
    url: str,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Put ensembles into the registry. Ensembles that it already holds are not changed.

    Signatures of FILE in FILE.sig, as `ccatune sign` writes them, are uploaded, too.

    \b
    Example:
      ccatune publish gr.json
      ccatune publish gr.json --channel champion --note "trained on March"
    """
    if channel_name is not None and len(files) > 1:
        raise click.UsageError("--channel: expected one file, for a channel points to one ensemble")
    if channel_name is None and (hold_back_permille or note or urgent is not None):
        raise click.UsageError(
            "--hold-back-permille, --urgent, --note: expected --channel with them, for they say how it moves"
        )
    # All files and options are checked before the first request, so that a mistake changes nothing in the registry.
    loaded = [Ensemble.load(path) for path in files]
    signatures = [read_signature(path, ensemble) for path, ensemble in zip(files, loaded, strict=True)]
    if channel_name is not None:
        require_channel(loaded[0].cca, channel_name)
        require_note(note)
    results: list[Json] = []
    with connect(url, token_file) as client:
        for path, ensemble, envelope in zip(files, loaded, signatures, strict=True):
            results.append({"file": str(path), **client.publish(ensemble), "warnings": training_warnings(ensemble)})
            if envelope is not None:
                results[-1]["signatures"] = upload_signatures(client, path, digest=ensemble.digest, envelope=envelope)
        if channel_name is not None:
            try:
                results[0]["deployment"] = client.move(
                    loaded[0].cca,
                    channel_name,
                    digest=loaded[0].digest,
                    hold_back_permille=hold_back_permille,
                    urgent=urgent,
                    note=note,
                )
            except RegistryClientError as error:
                raise RegistryClientError(f"{error} ({files[0]} is published, --channel alone failed)") from error
    if as_json:
        click.echo(json.dumps(results))
    else:
        print_published(results)


@click.group()
def channel() -> None:
    """Point a channel to an ensemble, or back to its previous one.

    \b
    Example:
      ccatune channel set gr champion sha256:0123... --note "after the canary"
      ccatune channel rollback gr champion
    """


@channel.command("set")
@click.argument("cca")
@click.argument("name")
@click.argument("digest")
@_hold_back_option
@_urgent_option
@_note_option
@_if_serial_option
@registry_options
@_json_option
def set_(
    *,
    cca: str,
    name: str,
    digest: str,
    hold_back_permille: int,
    urgent: bool | None,
    note: str,
    if_serial: int | None,
    url: str,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Point channel NAME of algorithm CCA to the published ensemble DIGEST.

    The first hexadecimal digits of a digest, at least 8, are enough where they name one ensemble.

    \b
    Example:
      ccatune channel set gr canary sha256:0123... --hold-back-permille 100
    """
    with connect(url, token_file) as client:
        moved = client.move(
            cca,
            name,
            digest=client.whole_digest(digest, cca=cca),
            hold_back_permille=hold_back_permille,
            urgent=urgent,
            note=note,
            if_serial=if_serial,
        )
    print_move(moved, as_json=as_json)


@channel.command()
@click.argument("cca")
@click.argument("name")
@_rollback_urgent_option
@_note_option
@_if_serial_option
@registry_options
@_json_option
def rollback(
    *,
    cca: str,
    name: str,
    urgent: bool | None,
    note: str,
    if_serial: int | None,
    url: str,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Point the channel back to its previous ensemble.

    Each running flow applies the ensemble at its next ACK or transmission. With --no-urgent it does so at the end of
    its epoch.

    \b
    Example:
      ccatune channel rollback gr champion --note "p95 rose on 3g"
    """
    with connect(url, token_file) as client:
        moved = client.roll_back(cca, name, urgent=urgent, note=note, if_serial=if_serial)
    print_move(moved, as_json=as_json)


@channel.command()
@click.argument("cca")
@click.argument("name")
@registry_options
@_json_option
def history(*, cca: str, name: str, url: str, token_file: Path | None, as_json: bool) -> None:
    """List the channel's deployments, newest first.

    \b
    Example:
      ccatune channel history gr champion
    """
    with connect(url, token_file) as client:
        print_table(client.history(cca, name), _DEPLOYMENT_COLUMNS, as_json=as_json)


@channel.command("show")
@click.argument("cca")
@click.argument("name")
@registry_options
@_json_option
def show_channel(*, cca: str, name: str, url: str, token_file: Path | None, as_json: bool) -> None:
    """Show the channel's current deployment. With --json its ensemble, too.

    \b
    Example:
      ccatune channel show gr champion
    """
    with connect(url, token_file) as client:
        found = client.channel(cca, name)
    print_facts(found if as_json else {key: found[key] for key in _SHOWN if key in found}, as_json=as_json)


@channel.command("list")
@click.option("--cca", help="Only those of this algorithm.")
@registry_options
@_json_option
def list_channels(*, cca: str | None, url: str, token_file: Path | None, as_json: bool) -> None:
    """List the channels, each with its current deployment.

    \b
    Example:
      ccatune channel list
    """
    with connect(url, token_file) as client:
        print_table(client.channels(cca=cca), _CHANNEL_COLUMNS, as_json=as_json)


@click.group()
def ensembles() -> None:
    """List the registry's ensembles, or print one.

    \b
    Example:
      ccatune ensembles list
      ccatune ensembles show sha256:0123... > gr.json
    """


@ensembles.command("list")
@click.option("--cca", help="Only those of this algorithm.")
@registry_options
@_json_option
def list_ensembles(*, cca: str | None, url: str, token_file: Path | None, as_json: bool) -> None:
    """List the published ensembles, newest first.

    \b
    Example:
      ccatune ensembles list --cca gr
    """
    with connect(url, token_file) as client:
        print_table(client.ensembles(cca=cca), _ENSEMBLE_COLUMNS, as_json=as_json)


@ensembles.command()
@click.argument("digest")
@registry_options
def show(*, digest: str, url: str, token_file: Path | None) -> None:
    """Print the ensemble DIGEST as JSON, after verifying its digest. At least 8 digits of it are enough.

    \b
    Example:
      ccatune ensembles show sha256:0123... > gr.json
    """
    with connect(url, token_file) as client:
        click.echo(json.dumps(client.ensemble(client.whole_digest(digest)).to_json(), indent=1, sort_keys=True))


@click.group(invoke_without_command=True)
@click.option("--cca", help="Only reports on this algorithm.")
@click.option("--channel", "channel_name", help="Only agents that follow this channel.")
@registry_options
@_json_option
@click.pass_context
def agents(
    ctx: click.Context,
    *,
    cca: str | None,
    channel_name: str | None,
    url: str,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """List the agents, each with its last report on each algorithm and the age of this report.

    The column shared_id shows `yes` where two agents report under one id. Their run_id (--json) tells them apart.

    \b
    Example:
      ccatune agents --cca gr --channel champion
      ccatune agents remove web-1
    """
    if ctx.invoked_subcommand is not None:
        given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"expected no option before `{ctx.invoked_subcommand}`; write options after it")
        return
    with connect(url, token_file) as client:
        rows = [row for row in client.agents(cca=cca) if channel_name in {None, row.get("channel")}]
    if not as_json:
        rows = [{**row, "age": age_in_words(row.get("age_s"))} for row in rows]
    print_table(rows, _AGENT_COLUMNS, as_json=as_json)


@agents.command()
@click.argument("agent_id", metavar="ID")
@registry_options
def remove(*, agent_id: str, url: str, token_file: Path | None) -> None:
    """Delete the reports of the agent ID from the registry, as of a server that is gone.

    If the agent still runs, its next report lists it again.

    \b
    Example:
      ccatune agents remove web-1
    """
    with connect(url, token_file) as client:
        client.remove_agent(agent_id)
    click.echo(f"{agent_id}: removed")
