# SPDX-License-Identifier: MIT
"""The commands of the package emulation. simulate and bench are imported at once, the others on first use."""

from importlib import import_module

import click

from emulation.cli.bench_command import bench
from emulation.cli.simulate_command import simulate

__all__ = ["bench", "simulate"]

# Commands that are imported on first use, so that the other commands start faster.
_LATER = {
    "traces": "emulation.traces.cli",
    "emulate": "emulation.cli.emulate_command",
    "pantheon": "emulation.pantheon.commands",
}


def __getattr__(name: str) -> click.Command:
    """Import a command of _LATER."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    command = getattr(import_module(_LATER[name]), name)
    assert isinstance(command, click.Command)  # noqa: S101 (for the type checker)
    return command
