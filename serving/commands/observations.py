# SPDX-License-Identifier: MIT
"""The command `ccatune observations`."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import click

from kmod.ensemble import write_atomically
from kmod.observations import begin_of, files_in
from kmod.tables import Column
from kmod.terminal import counted, echo
from serving.commands.options import connect, json_option, registry_options
from serving.commands.printing import Cells, print_answer, print_table, short_digest, time_in_words
from serving.errors import RegistryClientError

_PATH = "/v1/observations"
_agent_option = click.option("--agent", "agent_id", metavar="ID", help="Only files of this server.")


@click.group()
def observations() -> None:
    """List and get the files that `ccatune observe` sent to the registry.

    \b
    Example:
      ccatune observations list
      ccatune observations get observed --agent web-1
    """


@observations.command("list")
@_agent_option
@registry_options
@json_option
def list_observations(*, agent_id: str | None) -> None:
    """List the files of observations, the newest upload first.

    \b
    Example:
      ccatune observations list --agent web-1
    """
    with connect() as client:
        print_table(client.pages(_PATH, agent_id=agent_id), _CELLS)


@observations.command("get")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@_agent_option
@registry_options
@json_option
def get_observations(*, folder: Path, agent_id: str | None) -> None:
    """Copy the files of observations into FOLDER, those that it does not have.

    Files of several servers may be in one folder.

    \b
    Example:
      ccatune observations get observed --agent web-1
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = {f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files_in(folder)}
    n_new = 0
    with connect() as client:
        for row in client.pages(_PATH, agent_id=agent_id):
            digest = str(row["digest"])
            if digest in known:
                continue
            content = client.content(f"{_PATH}/{digest}")
            if digest != f"sha256:{hashlib.sha256(content).hexdigest()}":
                raise RegistryClientError(f"registry {client.url}: expected {digest}, got a file with another digest")
            _, name = begin_of(content, name=digest)
            write_atomically(folder / name, content)
            n_new += 1
    answer = {"folder": str(folder), "new": n_new, "known": len(known)}
    print_answer(answer, lambda: echo(f"{folder}: {counted(n_new, 'new file')}, {len(known)} known"))


_CELLS: Cells = {
    Column("server", least=10): lambda row: str(row["agent_id"]),
    Column("begins (UTC)"): lambda row: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(row["start_s"])),
    Column("KiB", "right"): lambda row: f"{row['size_bytes'] / 1024:.0f}",
    Column("uploaded (UTC)"): lambda row: time_in_words(row["received_at"]),
    Column("digest"): lambda row: short_digest(row["digest"]),
}
