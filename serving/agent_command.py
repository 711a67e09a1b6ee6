# SPDX-License-Identifier: MIT
"""The command `ccatune agent`, with an option for machines without the kernel module.

The option --stand-in replaces the module's /proc tree by a stand-in. The stand-in needs the simulator's engine,
which the agent's own wheel does not contain. The option is therefore added here, outside of `serving.agent`, and
the engine is imported only when the option is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from serving.agent.cli import make_agent
from serving.agent.settings import AgentSettings
from serving.agent.tree import Tree, make_tree

__all__ = ["agent"]


def choose_tree(settings: AgentSettings, options: dict[str, Any]) -> Tree:
    """Return the stand-in for the folder that --stand-in names, or the tree of --via without this option.

    With --dry-run the stand-in is a copy that is deleted when the command ends, because a stand-in makes its files.
    """
    folder: Path | None = options["stand_in"]
    if folder is None:
        return make_tree(settings.via, proc_root=settings.proc_root)
    from emulation.standin import StandInTree

    context = click.get_current_context()
    if context.params.get("dry_run"):
        import shutil
        import tempfile

        copy = context.with_resource(tempfile.TemporaryDirectory(prefix="ccatune-dry-run-"))
        if folder.is_dir():
            shutil.copytree(folder, copy, dirs_exist_ok=True)
        folder = Path(copy)
    return StandInTree(folder)


agent = make_agent(
    choose_tree,
    extra_options=[
        click.Option(
            ["--stand-in"],
            type=click.Path(file_okay=False, path_type=Path),
            help="Write to a stand-in for the module's tree, kept in this folder, behind the same parser.",
        )
    ],
)
