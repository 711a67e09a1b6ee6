# SPDX-License-Identifier: MIT
"""`ccatune report`: prints the tables that support the claims about training."""

from __future__ import annotations

import click

from training.reports.axes import axes
from training.reports.bound import bound
from training.reports.robustness import robustness
from training.reports.search import search
from training.reports.states import states
from training.reports.surrogate import surrogate
from training.reports.synthetic import synthetic
from training.reports.verify import verify
from training.reports.worst import worst


@click.group()
def report() -> None:
    """Print the tables that support the claims; exit 1 if a row falls short of its criterion.

    \b
    Example:
      ccatune report robustness gr.json
    """


for command in (axes, bound, robustness, search, states, surrogate, synthetic, verify, worst):
    report.add_command(command)
