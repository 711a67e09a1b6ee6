# SPDX-License-Identifier: MIT
"""The commands `ccatune publish`, `channels` and `ensembles`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from kmod.coverage import training_warnings
from kmod.ensemble import Ensemble
from kmod.tables import Column
from kmod.terminal import echo, echo_wrapped
from serving.client import RegistryClient, require_channel, require_note
from serving.commands.options import FILE, connect, json_option, registry_options
from serving.commands.printing import (
    Cells,
    channel_of,
    print_answer,
    print_facts,
    print_move,
    print_table,
    share_in_words,
    short_digest,
    time_in_words,
    yes_or_no,
)
from serving.commands.signed_files import read_signature, signature_path
from serving.errors import RegistryClientError
from serving.signatures import Envelope

Json = dict[str, Any]

_CHANNEL = Column("channel", least=12)
_SERIAL = Column("serial", "right")
_TABLE = Column("table")
_OF_A_MOVE: Cells = {
    _SERIAL: lambda row: str(row["serial"]),
    _TABLE: lambda row: short_digest(row["digest"]),
    Column("held back", "right"): lambda row: share_in_words(row["hold_back_permille"]),
    Column("urgent"): lambda row: yes_or_no(row["urgent"]),
    Column("moved (UTC)"): lambda row: time_in_words(row["deployed_at"]),
}
_DEPLOYMENTS: Cells = {
    **_OF_A_MOVE,
    Column("as of", "right"): lambda row: str(row["restores_serial"] or ""),
    Column("note", least=8, cut="end"): lambda row: str(row["note"]),
}
_CHANNELS: Cells = {
    _CHANNEL: channel_of,
    **_OF_A_MOVE,
    # A registry of an earlier version does not have it.
    Column("drift"): lambda row: str((row.get("drift") or {}).get("verdict", "")),
}
_ENSEMBLES: Cells = {
    _TABLE: lambda row: short_digest(row["digest"]),
    Column("algorithm"): lambda row: str(row["cca"]),
    Column("states", "right"): lambda row: str(row["n_states"]),
    Column("classes", "right"): lambda row: str(row["n_classes"]),
    Column("bytes", "right"): lambda row: str(row["size_bytes"]),
    Column("published (UTC)"): lambda row: time_in_words(row["published_at"]),
}
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
    "--if-serial", type=click.IntRange(min=0), help="Only where the channel stands at this serial (0: at none)."
)


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--channel", "channel_name", help="Point this channel of its algorithm to the ensemble, too.")
@_hold_back_option
@_urgent_option
@_note_option
@registry_options
@json_option
def publish(
    *, files: tuple[Path, ...], channel_name: str | None, hold_back_permille: int, urgent: bool | None, note: str
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
    with connect() as client:
        for path, ensemble, envelope in zip(files, loaded, signatures, strict=True):
            results.append({"file": str(path), **client.publish(ensemble), "warnings": training_warnings(ensemble)})
            if envelope is not None:
                results[-1]["signatures"] = _upload_signatures(client, path, digest=ensemble.digest, envelope=envelope)
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
    print_answer(results, lambda: _print_published(results))


def _upload_signatures(client: RegistryClient, path: Path, *, digest: str, envelope: Envelope) -> Json:
    """Upload the signatures of a published ensemble. Raises RegistryClientError, which says what is done already."""
    try:
        return client.add_signature(digest, envelope)
    except RegistryClientError as error:
        raise RegistryClientError(f"{error} ({path} is published, {signature_path(path)} is not)") from error


def _print_published(results: Sequence[Json]) -> None:
    """Print a line about each published file and the move of its channel, and last what its training lacks."""
    for result in results:
        line = f"{result['file']}: {'published' if result['created'] else 'published before'} {result['digest']}"
        if (found := result.get("signatures")) is not None:
            n_valid = sum(row.get("counts") is True for row in found["signatures"])
            line += f", signed by {n_valid} of {found['threshold']} needed publishers"
        echo(line)
        if "deployment" in result:
            print_move(result["deployment"])
    for result in results:
        for warning in result["warnings"]:
            echo_wrapped(f"{result['file']}: {warning}")


@click.group()
def channels() -> None:
    """Point a channel to an ensemble, or back to its previous one.

    \b
    Example:
      ccatune channels set gr champion sha256:0123... --note "after the canary"
      ccatune channels rollback gr champion
    """


@channels.command("set")
@click.argument("cca")
@click.argument("name")
@click.argument("digest")
@_hold_back_option
@_urgent_option
@_note_option
@_if_serial_option
@registry_options
@json_option
def set_(
    *, cca: str, name: str, digest: str, hold_back_permille: int, urgent: bool | None, note: str, if_serial: int | None
) -> None:
    """Point channel NAME of algorithm CCA to the published ensemble DIGEST.

    The first hexadecimal digits of a digest, at least 8, are enough where they name one ensemble.

    \b
    Example:
      ccatune channels set gr canary sha256:0123... --hold-back-permille 100
    """
    with connect() as client:
        moved = client.move(
            cca,
            name,
            digest=client.whole_digest(digest, cca=cca),
            hold_back_permille=hold_back_permille,
            urgent=urgent,
            note=note,
            if_serial=if_serial,
        )
    print_move(moved)


@channels.command()
@click.argument("cca")
@click.argument("name")
@_rollback_urgent_option
@_note_option
@_if_serial_option
@registry_options
@json_option
def rollback(*, cca: str, name: str, urgent: bool | None, note: str, if_serial: int | None) -> None:
    """Point the channel back to its previous ensemble.

    Each running flow applies the ensemble at its next ACK or transmission. With --no-urgent it does so at the end of
    its epoch.

    \b
    Example:
      ccatune channels rollback gr champion --note "p95 rose on 3g"
    """
    with connect() as client:
        moved = client.roll_back(cca, name, urgent=urgent, note=note, if_serial=if_serial)
    print_move(moved)


@channels.command("remove")
@click.argument("cca")
@click.argument("name")
@_if_serial_option
@registry_options
def remove_channel(*, cca: str, name: str, if_serial: int | None) -> None:
    """Delete the channel and its history. Its agents keep their tables and report the state NoChannel.

    A channel that is made again under this name has higher serials. The audit log keeps the moves.

    \b
    Example:
      ccatune channels remove gr canary
    """
    with connect() as client:
        client.remove_channel(cca, name, if_serial=if_serial)
    echo(f"{cca}/{name}: removed; its agents keep their tables")


@channels.command()
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def history(*, cca: str, name: str) -> None:
    """List the channel's deployments, newest first.

    \b
    Example:
      ccatune channels history gr champion
    """
    with connect() as client:
        print_table(client.history(cca, name), _DEPLOYMENTS)


@channels.command("show")
@click.argument("cca")
@click.argument("name")
@registry_options
@json_option
def show_channel(*, cca: str, name: str) -> None:
    """Show the channel's current deployment. With --json its ensemble, too.

    \b
    Example:
      ccatune channels show gr champion
    """
    with connect() as client:
        found = client.channel(cca, name)
    facts = {column.heading: cell(found) for column, cell in _DEPLOYMENTS.items()}
    shown = {heading: text for heading, text in facts.items() if text}
    print_facts(found, shown={"registry": found["registry"], "channel": channel_of(found), **shown})


@channels.command()
@click.argument("cca")
@click.argument("name")
@click.argument("file", type=click.File("rb"), metavar="[FILE]", default="-")
@registry_options
@json_option
def advice(*, cca: str, name: str, file: BinaryIO) -> None:
    """Give channel NAME of algorithm CCA an advice, which its page then shows.

    FILE is the output of `ccatune advise --json`; without it, standard input is read. This
    needs the scope train.

    \b
    Example:
      ccatune advise captures/ --json | ccatune channels advice gr champion
    """
    try:
        report = json.load(file)
    except ValueError as error:
        raise RegistryClientError(
            f"{file.name}: expected the output of `ccatune advise --json`, got no JSON ({error})"
        ) from error
    with connect() as client:
        found = client.ask("PUT", f"{require_channel(cca, name)}/advice", body=report)
    print_answer(found, lambda: echo_wrapped(f"{cca}/{name} has the advice: {' '.join(found['answer'])}"))


@channels.command("list")
@click.option("--cca", help="Only those of this algorithm.")
@registry_options
@json_option
def list_channels(*, cca: str | None) -> None:
    """List the channels, each with its current deployment.

    \b
    Example:
      ccatune channels list
    """
    with connect() as client:
        print_table(client.channels(cca=cca), _CHANNELS)


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
@json_option
def list_ensembles(*, cca: str | None) -> None:
    """List the published ensembles, newest first.

    \b
    Example:
      ccatune ensembles list --cca gr
    """
    with connect() as client:
        print_table(client.ensembles(cca=cca), _ENSEMBLES)


@ensembles.command()
@click.argument("digest")
@registry_options
def show(*, digest: str) -> None:
    """Print the ensemble DIGEST as JSON, after verifying its digest. At least 8 digits of it are enough.

    \b
    Example:
      ccatune ensembles show sha256:0123... > gr.json
    """
    with connect() as client:
        echo(json.dumps(client.ensemble(client.whole_digest(digest)).to_json(), indent=1, sort_keys=True))
