# SPDX-License-Identifier: MIT
"""Compares docs/claims.md with how its figures were found, and says which figures are older than what they depend on.

    python -m tests.prove.claims                                      # exit 1 if a row contradicts its record
    python -m tests.prove.claims --record "CLAIM" -- COMMAND WORD ...  # runs the command of a row, and records it

shown.jsonl has a record for each row that was run by this program: the command, its status and the end of its output.
A row fails if its command or date is no longer that of the record, if the command that ran has words which the row does
not state, if a number of its figure is not in the output, or if it "holds" although the command failed. A command with
a bound of its own, such as `train --within`, thus proves its verdict.

A row or a picture is older than its inputs if a commit changed the inputs after the date of the row, or after the
commit of the picture. Rows of campaigns have the inputs that campaigns.yaml gives, others INPUTS.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from tests.prove.__main__ import CAMPAIGNS, REPOSITORY, chosen_of, load_campaigns

INPUTS = ("kmod/core/*.h", "emulation/cpp/**", "emulation/run/*.py", "training/**/*.py")
PREFIXES = {
    "x": "python -m experiments", "p": "make prove ARGS=", "make": "make", "bench": "ccatune bench",
    "pytest": "python -m pytest", "police": "python -m tests.prove.police",
    "rtcp_cost": "python -m tests.prove.rtcp_cost",
}  # fmt: skip
NUMBER = re.compile(r"\d+(?:\.\d+)?")
# Options that name places of a machine, or how a result is printed.
OF_A_MACHINE = re.compile(r" --(?:json|fresh|resume|(?:out|traces|work|threads)[ =]\S+)")


class Row(NamedTuple):
    """A row of the page. stated: its command with the text of its mark."""

    claim: str
    figure: str
    verdict: str
    stated: str
    date: str


def rows_of(page: str) -> list[Row]:
    """The rows of the page's table."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    marks = {row[0]: row[1] for row in cells if len(row) == 2}
    rows = []
    for claim, figure, verdict, command, date in (row for row in cells if len(row) == 5 and re.match(r"\d", row[4])):
        name, _, mark = command.partition(" (")
        rows.append(Row(claim, figure, verdict, f"{name} {marks.get(mark.rstrip(')'), '')}".strip(), date))
    return rows


def expanded(command: str) -> str:
    """The beginning of the command that a row states in short."""
    head, _, rest = command.partition(" ")
    return f"{PREFIXES.get(head, f'ccatune {head}')} {rest}".strip().replace("ARGS= ", "ARGS=")


def faults_of(row: Row, record: Mapping[str, Any]) -> list[str]:
    """How a row contradicts its record."""
    faults = [f"the page has {name} {now!r}, the record {record[name]!r}"
              for name, now in (("stated", row.stated), ("date", row.date)) if now != record[name]]  # fmt: skip
    ran, stated = (
        [word.rpartition("/")[2] for word in re.split(r"[\s;,`]+", text)]
        for text in (OF_A_MACHINE.sub("", record["ran"]), expanded(row.stated))
    )
    if unknown := [word for word in ran if word not in stated]:
        faults.append(f"it was shown by `{record['ran']}`, but `{expanded(row.stated)}` lacks {' '.join(unknown)}")
    shown = {*NUMBER.findall(record["output"]), str(record["seconds"]), f"{record['seconds'] / 60:.1f}"}
    if missing := [number for number in NUMBER.findall(row.figure) if number not in shown]:
        faults.append(f"its command did not print {', '.join(missing)}")
    if row.verdict == "holds" and record["status"]:
        faults.append(f"it holds on the page, but its command ended with {record['status']}")
    return faults


def shown_by(row: Row, command: Sequence[str]) -> dict[str, Any]:
    """Run the command of a row; its record."""
    began_s = time.monotonic()
    words = [sys.executable if word == "python" else word for word in command]
    done = subprocess.run(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    return {
        "claim": row.claim, "stated": row.stated, "ran": " ".join(command), "status": done.returncode,
        "date": f"{datetime.datetime.now(datetime.UTC):%m-%d}", "seconds": round(time.monotonic() - began_s),
        "output": done.stdout[-2000:],
    }  # fmt: skip


def changed_on(*paths: str) -> str:
    """The date of the last commit that changed these paths, as 2026-11-28; empty without one, or without git's data."""
    words = ["git", "log", "-1", "--format=%cs", "--", *(f":(glob){path}" for path in paths)]
    return subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


def older_than_inputs(rows: Sequence[Row]) -> list[str]:
    """The rows, and the pictures of the documents, that are older than their inputs."""
    campaigns, found = load_campaigns(CAMPAIGNS), []
    for row in rows:
        chosen = chosen_of(re.findall(r"^p (\S+)", row.stated), campaigns) if row.stated.startswith("p ") else {}
        inputs = [path for one in chosen.values() for path in (*one.depends, *one.also)] or INPUTS
        if (changed := changed_on(*inputs)) > f"2026-{row.date}":
            found.append(f"{row.claim}: of 2026-{row.date}, its inputs of {changed}")
    for picture in sorted(REPOSITORY.glob("docs/*.png")):
        name = f"docs/{picture.name}"
        drawn, changed = changed_on(name), changed_on(*INPUTS, f"experiments/{picture.stem}/*.py")
        if changed > drawn:
            found.append(f"{name}: drawn on {drawn}, its inputs of {changed}")
    return found


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--page", type=click.Path(path_type=Path), default=REPOSITORY / "docs" / "claims.md")
@click.option("--shown", type=click.Path(path_type=Path), default=Path(__file__).with_name("shown.jsonl"))
@click.option("--record", "claim", help="Run COMMAND, which this row states, and record it.")
def claims(*, command: tuple[str, ...], page: Path, shown: Path, claim: str | None) -> None:
    """Compare the page of claims with the records, or add one."""
    rows = {row.claim: row for row in rows_of(page.read_text(encoding="utf-8"))}
    records = {one["claim"]: one for one in map(json.loads, shown.read_text(encoding="utf-8").splitlines())}
    if claim is not None:
        row = rows.get(claim) or sys.exit(f"expected the claim of a row, got {claim!r}")
        if not command or not shutil.which(command[0]):
            sys.exit(f"expected a command that PATH finds, got {' '.join(command)!r}; .venv/bin has those of ccatune")
        records[claim] = shown_by(row, command)
        click.echo(records[claim]["output"])
        shown.write_text("".join(f"{json.dumps(one)}\n" for one in records.values()), encoding="utf-8")
    faults = [f"{name}: no row of the page" for name in records if name not in rows]
    faults += [f"{name}: {fault}" for name in records if name in rows for fault in faults_of(rows[name], records[name])]
    for line in older_than_inputs(list(rows.values())):
        click.echo(f"older than its inputs: {line}")
    for line in faults:
        click.echo(f"FAILS: {line}")
    click.echo(f"{len(rows)} rows, {len(rows.keys() & records)} with a record, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    claims()
