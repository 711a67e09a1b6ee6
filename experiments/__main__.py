# SPDX-License-Identifier: MIT
"""`python -m experiments`: what papers state beside what ccatune measures, and the simulator beside real kernels."""

from __future__ import annotations

from importlib import import_module

import click

import ccatune

# By the experiment's name: the module with its command, and what it compares.
EXPERIMENTS = {
    "fidelity": ("experiments.fidelity.command", "The simulator with real kernels over Mahimahi"),
    "roccet": ("experiments.roccet", "The ROCCET paper with the simulator"),
    "rtcp": ("experiments.rtcp", "R-TCP 2026 with the simulator"),
}


class Experiments(click.Group):
    """Imports an experiment when it is named."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of all experiments."""
        return [*EXPERIMENTS]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of an experiment; None: there is none of that name."""
        if cmd_name not in EXPERIMENTS:
            return None
        command: click.Command = import_module(EXPERIMENTS[cmd_name][0]).command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the experiments without importing them."""
        with formatter.section("Experiments, and what they compare"):
            formatter.write_dl([(name, words) for name, (_, words) in EXPERIMENTS.items()])


@click.group(cls=Experiments, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the experiments that support what docs/ says.

    \b
    Example:
      python -m experiments fidelity --short
    """


if __name__ == "__main__":
    ccatune.main(group=cli, name="python -m experiments")
