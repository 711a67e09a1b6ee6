# SPDX-License-Identifier: MIT
"""Runs the campaigns that are too long for `make test`: `make prove`, or `make prove ARGS="fuzz"`.

The campaigns stand in campaigns.yaml. One that has passed is not run again until its command, or a file that
it depends on, has changed; so an interrupted `make prove` goes on where it stopped. One that takes hours has parts,
each of which passes, is kept, and may be run, by itself: `make prove ARGS=vm.test_long`. Results and whole outputs
stand in build/prove.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
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


class Part(BaseModel):
    """A part of a campaign that is run, and kept, by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(description="What a pass of it shows.")
    depends: tuple[str, ...] = Field((), description="Globs of what it rests on beside the campaign's and its file.")


class Campaign(BaseModel):
    """One long test. Its command exits 0 when the claim holds, and its last line says what was found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: str = Field(description="What a pass shows.")
    command: tuple[str, ...] = Field(min_length=1, description="Arguments; python is the environment's own.")
    parts: dict[str, Part] = Field({}, description="By the last words of the command, of which the first is a file.")
    environment: dict[str, str] = Field(default={}, description="Added to the environment of the command.")
    depends: tuple[str, ...] = Field(min_length=1, description="Globs from the root of what the result rests on.")


class Result(BaseModel):
    """How a campaign ended, and on what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(description="Of the command and of every file that it depends on.")
    passed: bool
    duration_s: float = Field(ge=0)
    last_line: str


def load_campaigns(path: Path) -> dict[str, Campaign]:
    """Read the campaigns by name; pydantic's error names what is wrong."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Campaign.model_validate(row) for name, row in raw.items()}


def digest_of(campaign: Campaign, *, root: Path) -> str:
    """Digest of everything that a campaign's result rests on.

    Raises click.ClickException for a glob that matches no file, which would hide changes for ever.
    """
    total = hashlib.sha256(campaign.model_dump_json(exclude={"claim"}).encode())
    for pattern in campaign.depends:
        files = sorted(path for path in root.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)
        if not files:
            raise click.ClickException(f"{pattern}: expected files that a campaign depends on, found none")
        for path in files:
            total.update(str(path.relative_to(root)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def passed_before(name: str, *, digest: str, results: Path) -> Result | None:
    """The recorded pass on the same digest, if there is one."""
    path = results / f"{name}.json"
    if not path.exists():
        return None
    result = Result.model_validate_json(path.read_bytes())
    return result if result.passed and result.digest == digest else None


def parts_of(name: str, campaign: Campaign) -> dict[str, Campaign]:
    """The campaign by its name, or each of its parts by `name.part`, with the part's options if it has some."""
    if not campaign.parts:
        return {name: campaign}
    found = {}
    for words, part in campaign.parts.items():
        file, *options = shlex.split(words)
        chosen = "".join(f"-{word}" for option in options for word in option.split() if not word.startswith("-"))
        found[f"{name}.{Path(file).stem}{chosen}"] = campaign.model_copy(update={
            "claim": part.claim, "command": (*campaign.command, file, *options),
            "depends": (*campaign.depends, *part.depends, file), "parts": {},
        })  # fmt: skip
    return found


def chosen_of(names: Sequence[str], campaigns: Mapping[str, Campaign]) -> dict[str, dict[str, Campaign]]:
    """What to run, by label, for each name of a campaign or of a part; without names, for each campaign.

    Raises click.UsageError for a name that is neither.
    """
    wholes = {name: parts_of(name, campaign) for name, campaign in campaigns.items()}
    parts = {label: {label: part} for whole in wholes.values() for label, part in whole.items()}
    known = wholes | {label: part for label, part in parts.items() if label not in wholes}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise click.UsageError(f"expected some of {', '.join(known)}, got {', '.join(unknown)}")
    return {name: known[name] for name in names or wholes}


def whole_of(parts: Mapping[str, Result | None]) -> Result | None:
    """Of parts one result, which passed where all did; None where one did not run and none failed."""
    ran = [result for result in parts.values() if result]
    if len(parts) == 1:
        return ran[0] if ran else None
    if len(ran) < len(parts) and all(result.passed for result in ran):
        return None
    return Result(
        digest=hashlib.sha256("".join(result.digest for result in ran).encode()).hexdigest(),
        passed=all(result.passed for result in ran),
        duration_s=round(sum(result.duration_s for result in ran), 1),
        last_line="; ".join(f"{name}: {result.last_line.strip('= ')}" for name, result in parts.items() if result),
    )


def run_campaign(name: str, campaign: Campaign, *, digest: str, root: Path, results: Path) -> Result:
    """Run a campaign in `root`, its output into a log in `results`, and record how it ended."""
    results.mkdir(parents=True, exist_ok=True)
    log = results / f"{name}.log"
    arguments = [sys.executable if word == "python" else word for word in campaign.command]
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
    """Run the campaigns, or parts of one, NAMES (all campaigns by default). Example: make prove ARGS="--list"."""
    campaigns = load_campaigns(CAMPAIGNS)
    found: dict[str, Result | None] = {}
    for name, chosen in chosen_of(names, campaigns).items():
        parts: dict[str, Result | None] = {}
        before = 0
        for label, part in chosen.items():
            digest = digest_of(part, root=REPOSITORY)
            parts[label] = None if again else passed_before(label, digest=digest, results=RESULTS)
            before += parts[label] is not None
            if parts[label] is None and not list_only:
                log = (RESULTS / f"{label}.log").relative_to(REPOSITORY)
                click.echo(f"{label}: {part.claim} ... (output: {log})", err=True)
                parts[label] = run_campaign(label, part, digest=digest, root=REPOSITORY, results=RESULTS)
        result = found[name] = whole_of(parts)
        seen = " (passed before on these files)" if before == len(parts) else f" ({before} before)" if before else ""
        word = "not run" if result is None else "passed" if result.passed else "FAILED"
        claim = (campaigns.get(name) or chosen[name]).claim
        if not as_json:
            click.echo(f"{name}: {word}{seen}: {claim if result is None else result.last_line}")
            for label, part in chosen.items() if list_only and len(chosen) > 1 else ():
                click.echo(f"  {label}: {'passed' if parts[label] else 'not run'}: {part.claim}")
    if as_json:
        click.echo(json.dumps({name: result and result.model_dump() for name, result in found.items()}))
    if not list_only:
        sys.exit(0 if all(result and result.passed for result in found.values()) else 1)


if __name__ == "__main__":
    prove()
