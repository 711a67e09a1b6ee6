# SPDX-License-Identifier: MIT
"""Measures what R-TCP adds to an ACK of its base algorithms, and to a connection's memory (rtcp_cost.cpp).

Example: python -m tests.prove.rtcp_cost --enforce
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "emulation" / "cpp"
# Nanoseconds that R-TCP may add, by phase; None: shown without a bound.
MOST_NS = {"idle": 30.0, "estimating": 150.0, "limited": None}
MOST_BYTES = 250
END_S = 600


def build(folder: Path) -> Path:
    """The program, compiled with the simulator that it records flows in."""
    program = folder / "rtcp_cost"
    sources = [path for part in ("simulation", "algorithms", "video") for path in sorted((ENGINE / part).glob("*.cpp"))]
    words = ["g++", "-std=c++20", "-O3", f"-I{ENGINE}", f"-I{ROOT / 'kmod' / 'core'}", "-o", str(program),
             str(Path(__file__).with_suffix(".cpp")), *map(str, sources), "-lpthread"]  # fmt: skip
    subprocess.run(words, check=True, timeout=END_S)
    return program


@click.command()
@click.option("--passes", type=click.IntRange(1, 10_000), default=51, show_default=True, help="Replays of each flow.")
@click.option("--enforce", is_flag=True, help="Exit 1 where a bound is exceeded.")
def main(*, passes: int, enforce: bool) -> None:
    """Print the cost of each base algorithm and phase."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(build(Path(folder))), str(passes)], check=True, timeout=END_S, capture_output=True)
    exceeded = False
    for row in map(json.loads, done.stdout.splitlines()):
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
