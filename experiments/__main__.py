# SPDX-License-Identifier: MIT
"""`python -m experiments`: what papers state beside what ccatune measures, and the simulator beside real kernels."""

from __future__ import annotations

import click

import ccatune
from ccatune import LazyCommand, LazyGroup

EXPERIMENTS = {
    "accelerator": LazyCommand("experiments.accelerator:command", "", "What a proxy in front of a mobile link gains"),
    "advice": LazyCommand("experiments.advice:command", "", "The advice for 60 links with the best choice on each"),
    "captures": LazyCommand("experiments.captures:command", "", "Which chunks of published captures were policed"),
    "fidelity": LazyCommand(
        "experiments.fidelity.command:command", "", "The simulator with real kernels over Mahimahi"
    ),
    "observed-links": LazyCommand(
        "experiments.observed_links:command", "", "Links rebuilt from observed flows, and the true ones"
    ),
    "pqsa": LazyCommand("experiments.pqsa:command", "", "The PQSA paper with the simulator"),
    "roccet": LazyCommand("experiments.roccet:command", "", "The ROCCET paper with the simulator"),
    "rollouts": LazyCommand("experiments.rollouts:command", "", "How roll-outs of a simulated fleet end"),
    "rtcp": LazyCommand("experiments.rtcp:command", "", "R-TCP 2026 with the simulator"),
    "sira": LazyCommand("experiments.sira:command", "", "The SIRA-H paper with the simulator"),
}


@click.group(
    cls=LazyGroup, rows=EXPERIMENTS, heading="Experiments, and what they compare",
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
def cli() -> None:
    """Run the experiments that support what docs/ says.

    \b
    Example:
      python -m experiments fidelity --short
    """


if __name__ == "__main__":
    ccatune.main(group=cli, name="python -m experiments")
