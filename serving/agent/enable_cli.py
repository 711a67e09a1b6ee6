# SPDX-License-Identifier: MIT
"""The commands `ccatune-agent enable` and `ccatune-agent disable`. `ccatune-agent` has both, too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from kmod.terminal import echo
from serving.agent.enable import DEFAULT_ENABLED_FILE, Switch
from serving.agent.loading import LOAD_VIAS, LoadVia

_NAME = re.compile(r"[a-z0-9_]{1,15}")

_state_option = click.option(
    "--state-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_ENABLED_FILE,
    show_default=True,
    help="File with the previous settings.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")


def _tell(done: list[str], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps({"done": done}))
        return
    for line in done:
        echo(line)


@click.command()
@click.argument("cca", default="gr")
@click.option("--allow-only", is_flag=True, help="Leave the default alone: only let programs choose it.")
@click.option(
    "--via",
    type=click.Choice(LOAD_VIAS),
    default="auto",
    show_default=True,
    help="Load its module, or load it in BPF; auto: in BPF only if the module cannot be loaded.",
)
@_state_option
@_json_option
def enable(*, cca: str, allow_only: bool, via: LoadVia, state_file: Path, as_json: bool) -> None:
    """Make the algorithm CCA the default of new connections in this network namespace. CCA defaults to gr.

    Loads the algorithm, lets every program on this machine choose it (also in containers), and makes it the default.
    Without this, only programs with CAP_NET_ADMIN may choose it. The earlier settings are saved once, and `disable`
    restores them. Existing connections keep their algorithm.

    All of them also run in BPF, on a kernel without the modules. This needs the program ccatune-bpf. cubic and vegas
    run in BPF only. There they are called ccatune_cubic and ccatune_vegas, because the kernel has a cubic of its own,
    and may have a vegas.

    \b
    Examples:
      ccatune-agent enable gr
      ccatune-agent enable gr --allow-only
      ccatune-agent enable gr --via bpf
    """
    if not _NAME.fullmatch(cca):
        raise click.UsageError(f"CCA: expected the name of an algorithm, e.g. gr, got {cca!r}")
    _tell(Switch(state_file).enable(cca, as_default=not allow_only, via=via), as_json=as_json)


@click.command()
@_state_option
@_json_option
@click.pass_context
def disable(ctx: click.Context, *, state_file: Path, as_json: bool) -> None:
    """Restore every setting that `enable` changed, and unload what it loaded.

    The exit status is 1 if a module is still in use. The settings are then restored; run `disable` again later to
    unload the module. What was loaded in BPF is unloaded at once, and connections that use it keep it.

    \b
    Example:
      ccatune-agent disable
    """
    done, left = Switch(state_file).disable()
    _tell([*done, left] if left else done, as_json=as_json)
    ctx.exit(1 if left else 0)
