# SPDX-License-Identifier: MIT
"""`python -m experiments`: what papers state beside what ccatune measures, and the simulator beside real kernels."""

from __future__ import annotations

import click

import ccatune
from experiments.fidelity.command import fidelity
from experiments.policing.command import policing
from experiments.roccet.command import roccet
from experiments.rtcp.command import rtcp


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the experiments that support what docs/ says.

    \b
    Example:
      python -m experiments fidelity --short
    """


for command in (fidelity, policing, roccet, rtcp):
    cli.add_command(command)

if __name__ == "__main__":
    ccatune.main(group=cli, name="python -m experiments")
