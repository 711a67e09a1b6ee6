# SPDX-License-Identifier: MIT
"""Runs the tests that are too long for `make test`: `make prove`, or `make prove ARGS="fuzz vm"`.

They stand in campaigns.yaml. A campaign that has passed is not run again until its command, or the bytes of a file that
it depends on, have changed. An interrupted `make prove` therefore continues where it stopped. A campaign may have a
name in two parts: `vm` means all whose names begin with `vm.`. Results and whole outputs are in build/prove.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import yaml
from pydantic import BaseModel, ConfigDict, Field

REPOSITORY = Path(__file__).resolve().parents[2]
CAMPAIGNS = Path(__file__).with_name("campaigns.yaml")
RESULTS = REPOSITORY / "build" / "prove"


class Campaign(BaseModel):
    """A long test. Its command exits 0 when the claim holds, and its last line says what was found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(description="What a pass shows.")
    command: tuple[str, ...] = Field(min_length=1, description="Arguments; python is the environment's own.")
    arguments: tuple[str, ...] = Field((), description="Further arguments.")
    environment: dict[str, str] = Field({}, description="Added to the environment of the command.")
    depends: tuple[str, ...] = Field(min_length=1, description="Globs from the root of what the result depends on.")
    also: tuple[str, ...] = Field((), description="Further such globs.")


class Result(BaseModel):
    """How a campaign ended, and on what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(description="Of the command and of every file that it depends on.")
    passed: bool
    duration_s: float = Field(ge=0)
    last_line: str


def load_campaigns(path: Path) -> dict[str, Campaign]:
    """Read the campaigns by name; pydantic's error names what is wrong. A name that begins with a dot is a template."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Campaign.model_validate(row) for name, row in raw.items() if not name.startswith(".")}


def digest_of(campaign: Campaign, *, root: Path) -> str:
    """Digest of everything that a campaign's result depends on.

    Raises click.ClickException for a glob that matches no file, which would hide changes for ever.
    """
    total = hashlib.sha256(campaign.model_dump_json(exclude={"claim"}).encode())
    for pattern in (*campaign.depends, *campaign.also):
        files = sorted(path for path in root.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)
        if not files:
            raise click.ClickException(f"{pattern}: expected files that a campaign depends on, found none")
        for path in files:
            total.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def passed_before(name: str, *, digest: str, results: Path) -> Result | None:
    """The recorded pass on the same digest, if there is one."""
    path = results / f"{name}.json"
    if not path.exists():
        return None
    result = Result.model_validate_json(path.read_bytes())
    return result if result.passed and result.digest == digest else None


def chosen_of(names: Sequence[str], campaigns: Mapping[str, Campaign]) -> dict[str, Campaign]:
    """The campaigns of these names, or with the first part of their name; all without names.

    Raises click.UsageError for a name that is neither.
    """
    heads = {name.partition(".")[0] for name in campaigns}
    if unknown := sorted(set(names) - heads - set(campaigns)):
        raise click.UsageError(f"expected some of {', '.join(campaigns)}, got {', '.join(unknown)}")
    return {
        name: campaign
        for name, campaign in campaigns.items()
        if not names or name in names or name.partition(".")[0] in names
    }


def run_campaign(name: str, campaign: Campaign, *, digest: str, root: Path, results: Path) -> Result:
    """Run a campaign in `root`, its output into a log in `results`, and record how it ended."""
    results.mkdir(parents=True, exist_ok=True)
    log = results / f"{name}.log"
    arguments = [sys.executable if word == "python" else word for word in (*campaign.command, *campaign.arguments)]
    start_s = time.monotonic()
    with log.open("wb") as output:
        status = subprocess.call(
            arguments,
            cwd=root,
            env={**os.environ, **campaign.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    result = Result(
        digest=digest,
        passed=status == 0,
        duration_s=round(time.monotonic() - start_s, 1),
        last_line=next((line for line in reversed(lines) if line.strip()), "(no output)"),
    )
    (results / f"{name}.json").write_text(result.model_dump_json(), encoding="utf-8")
    return result


@click.command()
@click.argument("names", nargs=-1)
@click.option("--again", is_flag=True, help="Run also what has passed on the same files.")
@click.option("--list", "list_only", is_flag=True, help="Show the campaigns and whether each has passed.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def prove(*, names: tuple[str, ...], again: bool, list_only: bool, as_json: bool) -> None:
    """Run the campaigns NAMES (all by default). Example: make prove ARGS="--list"."""
    found: dict[str, Result | None] = {}
    for name, campaign in chosen_of(names, load_campaigns(CAMPAIGNS)).items():
        digest = digest_of(campaign, root=REPOSITORY)
        result = None if again else passed_before(name, digest=digest, results=RESULTS)
        seen = " (before, on these files)" if result else ""
        if result is None and not list_only:
            log = (RESULTS / f"{name}.log").relative_to(REPOSITORY)
            click.echo(f"{name}: {campaign.claim} ... (output: {log})", err=True)
            result = run_campaign(name, campaign, digest=digest, root=REPOSITORY, results=RESULTS)
        found[name] = result
        word = "not run" if result is None else "passed" if result.passed else "FAILED"
        if not as_json:
            click.echo(f"{name}: {word}{seen}: {campaign.claim if result is None else result.last_line}")
    if as_json:
        click.echo(json.dumps({name: result and result.model_dump() for name, result in found.items()}))
    if not list_only:
        sys.exit(0 if all(result and result.passed for result in found.values()) else 1)


if __name__ == "__main__":
    prove()
