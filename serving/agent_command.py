# SPDX-License-Identifier: MIT
"""`ccatune agent`: the agent of a server, and beside it a stand-in for machines without the kernel module.

The stand-in needs the engine, which the agent's own wheel leaves out; so the option is added here, outside of
`serving.agent`, and the engine is imported when the option is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from serving.agent.cli import make_agent
from serving.agent.settings import AgentSettings
from serving.agent.tree import ProcTree, Tree

__all__ = ["agent"]


def choose_tree(settings: AgentSettings, options: dict[str, Any]) -> Tree:
    """The stand-in where --stand-in names its folder, else the module's own tree."""
    folder: Path | None = options["stand_in"]
    if folder is None:
        return ProcTree(settings.proc_root)
    from emulation.standin import StandInTree

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
