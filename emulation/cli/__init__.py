# SPDX-License-Identifier: MIT
"""Commands of emulation: simulate, bench, and traces, which is imported when it is asked for."""

from importlib import import_module

import click

from emulation.cli.bench_command import bench
from emulation.cli.simulate_command import simulate

__all__ = ["bench", "simulate"]


def __getattr__(name: str) -> click.Command:
    """`traces`, without which the other commands start sooner."""
    if name != "traces":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    command = import_module("emulation.traces.cli").traces
    assert isinstance(command, click.Command)  # noqa: S101 (for the type checker)
    return command
