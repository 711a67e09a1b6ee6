# SPDX-License-Identifier: MIT
"""Throughput of a bulk flow on a veth in the guest: each algorithm in BPF beside its module.

    python -m tests.prove.bpf_bulk [--kernel 6.12] [--json]

The processor limits the flow, and the guest has a clock of its own, so the figures do not depend on this machine. Each
algorithm in BPF is compared with its module, and CUBIC with the kernel's own. Exits 0 where each median is at least
95 % of the median that it is compared with.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from emulation.vm import PROVED_LINES
from tests.vm import boot
from tests.vm.job import job
from tests.vm.programs import bpf_lacks, build_bpf

PROGRAM = "bulk_bpf"
LEAST_SHARE = 0.95
TIMEOUT_S = 1800


def measured(line: str, *, folder: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Mbit/s by host (kernel, module, bpf) and algorithm, round by round.

    Raises:
        click.ClickException: the guest's program failed, or its kernel logged something.
    """
    told = {**job(folder, long=True), "bulk_rounds": rounds}
    outcome = boot.run_programs(line, [PROGRAM], told, folder=folder, timeout_s=TIMEOUT_S, own_clock=True)[PROGRAM]
    if outcome.error or outcome.complaints:
        raise click.ClickException(f"kernel {line}: {outcome.error or outcome.complaints}")
    found: dict[str, dict[str, list[float]]] = outcome.result
    return found


def compare(line: str, found: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """A row for each algorithm in BPF. Rates are medians of the rounds in Mbit/s."""
    rows = []
    for cca, rates in found["bpf"].items():
        beside = "module" if cca in found["module"] else "kernel"
        its, of = statistics.median(rates), statistics.median(found[beside][cca])
        rows.append(
            {
                "kernel": line,
                "cca": cca,
                "bpf_mbps": round(its, 1),
                "beside": beside,
                "beside_mbps": round(of, 1),
                "share": round(its / of, 3),
                "holds": its >= LEAST_SHARE * of,
            }
        )
    return rows


@click.command()
@click.option("--kernel", "lines", multiple=True, type=click.Choice(PROVED_LINES), help="Only this line.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Flows behind each median.")
@click.option("--json", "as_json", is_flag=True, help="Print all rates as JSON.")
def main(*, lines: tuple[str, ...], rounds: int, as_json: bool) -> None:
    """Compare, and exit 0 where every algorithm reaches its share."""
    if problem := bpf_lacks() or build_bpf():
        raise click.ClickException(problem)
    found, rows = {}, []
    with tempfile.TemporaryDirectory(prefix="ccatune-bulk-") as name:
        for line in lines or PROVED_LINES:
            found[line] = measured(line, folder=Path(name) / line, rounds=rounds)
            rows += compare(line, found[line])
    if as_json:
        click.echo(json.dumps({"rates_mbps": found, "rows": rows}))
    else:
        for row in rows:
            click.echo(json.dumps(row))
        least = min(rows, key=lambda row: float(row["share"]))
        held = sum(row["holds"] for row in rows)
        click.echo(
            f"{held} of {len(rows)} algorithms in BPF reach {LEAST_SHARE:.0%} of the throughput beside them; "
            f"least {least['share']:.1%}: {least['cca']} on {least['kernel']}"
        )
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
