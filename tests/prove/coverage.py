# SPDX-License-Identifier: MIT
"""Prints the branch coverage of kmod/core by header, and the branches that no test takes.

    python -m tests.prove.coverage

Exits 0 when all headers together reach 95 %.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from tests.contract.coverage import REQUIRED_PERCENT, measure, report, total


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def main(*, as_json: bool) -> None:
    """Measure the coverage of the core. Example: python -m tests.prove.coverage --json"""
    with tempfile.TemporaryDirectory() as folder:
        headers = measure(Path(folder))
    whole = total(headers)
    if as_json:
        rows = {
            name: {
                "branches": len(one.seen),
                "taken": len(one.taken),
                "percent": round(one.percent, 2),
                "missed": [f"{branch.line} {branch.function} {branch.index}" for branch in one.missed],
            }
            for name, one in headers.items()
        }
        click.echo(
            json.dumps({"percent": round(whole.percent, 2), "required_percent": REQUIRED_PERCENT, "headers": rows})
        )
    else:
        click.echo(report(headers))
    sys.exit(0 if whole.percent >= REQUIRED_PERCENT else 1)


if __name__ == "__main__":
    main()
