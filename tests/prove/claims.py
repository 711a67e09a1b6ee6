# SPDX-License-Identifier: MIT
"""Runs the command behind each claim and writes docs/claims.md: no figure there is typed by hand.

    python -m tests.prove.claims            all claims, in their order
    python -m tests.prove.claims 3a 3b      these alone; the others keep what was found last

The claims stand in claims.yaml, each with the last output of its command: the lines that match `pick`, else the last
one. A claim with `block` also puts the whole output between the two marks
`<!-- output of CLAIM -->` and `<!-- end of output -->` of that document. Exits 1 where a claim falls short.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import yaml
from pydantic import BaseModel, ConfigDict, Field

from emulation.cli.bench_command import describe_machine
from kmod.ensemble import write_atomically

REPOSITORY = Path(__file__).resolve().parents[2]
CLAIMS = Path(__file__).with_name("claims.yaml")
PAGE = REPOSITORY / "docs" / "claims.md"
MOST_S = 6 * 3600
HEAD = """# What is claimed, the command that shows it, and what it showed last (tests/prove/claims.py, class Claim).
# Recorded traces are read from ../shared/traces, where a clone has them beside it; build/gr.json is made by claim 2.
"""
BLOCK = "<!-- output of {id} -->\n```\n{output}\n```\n<!-- end of output -->"


class Shown(BaseModel):
    """What a command showed, and when and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str = Field(description="That showed it; the claim's own may have changed since.")
    holds: bool
    figure: str
    date: str
    machine: str
    load: float = Field(description="Mean number of processes that ran or waited in the minute before.")
    seconds: float


class Claim(BaseModel):
    """A claim and the command that shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str
    command: str = Field(description="As a person types it, from the repository's root.")
    pick: str | None = Field(None, description="Regular expression: the lines that hold the figure; else the last.")
    block: str | None = Field(None, description="The document that shows the whole output.")
    shown: Shown | None = None


def load_claims(path: Path) -> dict[str, Claim]:
    """The claims by their number; pydantic's error names what is wrong."""
    return {str(name): Claim.model_validate(row) for name, row in yaml.safe_load(path.read_text("utf-8")).items()}


def save_claims(path: Path, claims: dict[str, Claim]) -> None:
    """Write the claims with what was shown."""
    data = {name: claim.model_dump(exclude_none=True) for name, claim in claims.items()}
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10_000)
    write_atomically(path, (HEAD + text).encode())


def figure_of(output: str, pick: str | None) -> str:
    """The picked lines of an output, or its last one; runs of blanks become one."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    found = [line for line in lines if re.search(pick, line)] if pick else lines[-1:]
    return "; ".join(found) or "(no output)"


def describe_place() -> str:
    """The machine in a few words."""
    found = describe_machine()
    return f"{found['usable_cpus']} x {found['processor']}, Python {found['python']}"


def show(claim: Claim, *, root: Path, most_s: float = MOST_S) -> tuple[Shown, str]:
    """Run a claim's command; what it showed, and its whole output. Past `most_s` it is ended with all it began."""
    load, began_s = os.getloadavg()[0], time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        shlex.split(claim.command), cwd=root, env={**os.environ, "PATH": path, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            output, _ = running.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            output = f"{running.communicate()[0]}\nnot over after {most_s:g} s\n"
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return Shown(
        command=claim.command,
        holds=running.returncode == 0,
        figure=figure_of(output, claim.pick),
        date=time.strftime("%Y-%m-%d"),
        machine=describe_place(),
        load=round(load, 1),
        seconds=round(time.monotonic() - began_s, 1),
    ), output


def page_of(claims: dict[str, Claim]) -> str:
    """docs/claims.md."""
    lines = [
        "# Claims",
        "`python -m tests.prove.claims` writes this page. It runs the command of each row, as "
        "[claims.yaml](../tests/prove/claims.yaml) states it. A command exits with 0 if its claim holds. The load is "
        "the mean number of processes that ran or waited in the minute before. Above 1, the machine was shared, and "
        "times and rates are less certain.",
        "",
        "| # | claim | command | shown | |",
        "|---|---|---|---|---|",
    ]
    for name, claim in claims.items():
        shown = claim.shown
        text = "not shown yet" if shown is None else _words_of(shown, claim)
        where = "" if shown is None else f"{shown.date}, {shown.machine}, load {shown.load}, {shown.seconds:.0f} s"
        cells = [name, claim.claim, f"`{claim.command}`", text, where]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _words_of(shown: Shown, claim: Claim) -> str:
    """What was shown; by which command, where it is not the claim's any more."""
    outcome = "holds" if shown.holds else "**falls short**"
    by = "" if shown.command == claim.command else f" (by `{shown.command}`)"
    return f"{outcome}{by}: {shown.figure}"


def put_block(document: Path, name: str, output: str) -> None:
    """Replace what a claim's command printed in a document.

    Raises click.ClickException when the document has no place for it.
    """
    text = document.read_text(encoding="utf-8")
    place = re.compile(rf"<!-- output of {re.escape(name)} -->.*?<!-- end of output -->", re.DOTALL)
    if not place.search(text):
        raise click.ClickException(f"{document}: expected the marks of claim {name}, found none")
    block = BLOCK.format(id=name, output=output.rstrip())
    write_atomically(document, place.sub(lambda _match: block, text).encode())


@click.command()
@click.argument("names", nargs=-1)
@click.option("--page-only", is_flag=True, help="Run nothing; write the page from the record.")
def main(*, names: tuple[str, ...], page_only: bool) -> None:
    """Show the claims NAMES (all by default), and write docs/claims.md. Example: python -m tests.prove.claims 3a."""
    claims = load_claims(CLAIMS)
    unknown = sorted(set(names) - set(claims))
    if unknown:
        raise click.UsageError(f"expected some of {', '.join(claims)}, got {', '.join(unknown)}")
    chosen = [] if page_only else list(names or claims)
    holds = True
    for name in chosen:
        click.echo(f"{name}: {claims[name].command}", err=True)
        shown, output = show(claims[name], root=REPOSITORY)
        claims[name] = claims[name].model_copy(update={"shown": shown})
        holds = holds and shown.holds
        click.echo(f"{name}: {'holds' if shown.holds else 'FALLS SHORT'}: {shown.figure}")
        if block := claims[name].block:
            put_block(REPOSITORY / block, name, output)
        save_claims(CLAIMS, claims)
        write_atomically(PAGE, page_of(claims).encode())
    if page_only:
        write_atomically(PAGE, page_of(claims).encode())
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
