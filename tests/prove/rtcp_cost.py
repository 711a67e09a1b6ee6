# SPDX-License-Identifier: MIT
"""Measures what R-TCP adds to an ACK of its base algorithms, and to a connection's memory (rtcp_cost.c).

Example: python -m tests.prove.rtcp_cost --enforce
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from tests.contract.toolchain import C11, Build, compile_program, run_program

# Nanoseconds that R-TCP may add, by phase; None: shown without a bound.
MOST_NS = {"idle": 30.0, "estimating": 150.0, "limited": None}
MOST_BYTES = 250


@click.command()
@click.option("--passes", type=click.IntRange(1, 10_000), default=51, show_default=True, help="Replays of each flow.")
@click.option("--enforce", is_flag=True, help="Exit 1 where a bound is exceeded.")
def main(*, passes: int, enforce: bool) -> None:
    """Print the cost of each base algorithm and phase."""
    build = Build("gcc, C11, optimised", C11, ("-O3", f"-DPASSES={passes}"))
    with tempfile.TemporaryDirectory() as name:
        program = compile_program(build, [Path(__file__).with_suffix(".c")], folder=Path(name), name="rtcp_cost")
        done = run_program(program, folder=Path(name), timeout_s=600)
    if done.returncode:
        raise click.ClickException(f"expected the costs, got status {done.returncode}:\n{done.stdout}")
    exceeded = False
    for row in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
        most_ns = MOST_NS[row["phase"]]
        over = (most_ns is not None and row["added_ns"] > most_ns) or row["extra_bytes"] > MOST_BYTES
        exceeded = exceeded or over
        click.echo(f"{row['base']:<6} {row['phase']:<11} {row['plain_ns']:6.1f} ns an ACK without R-TCP, "
                   f"{row['added_ns']:6.1f} ns added, {row['extra_bytes']} bytes a connection"
                   f"{'  exceeds its bound' if over else ''}")  # fmt: skip
    click.echo(f"bounds: {'exceeded' if exceeded else 'met'}")
    sys.exit(1 if enforce and exceeded else 0)


if __name__ == "__main__":
    main()
