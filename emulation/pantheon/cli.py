# SPDX-License-Identifier: MIT
"""`ccatune pantheon`: runs schemes over emulated links by Pantheon's protocol, and analyses data folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from emulation.errors import EmulationError
from emulation.options import words_of
from emulation.pantheon.schemes import Scheme, SchemeError, read_schemes, schemes_of
from kmod.abi import ALGORITHMS
from kmod.tables import Column, print_table
from kmod.terminal import echo

_checkout = click.option(
    "--pantheon",
    "checkout",
    type=click.Path(path_type=Path, file_okay=False),
    help="Use the schemes of this checkout of Pantheon instead of those of ccatune.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def pantheon() -> None:
    """Compare congestion control schemes over the same links, by Pantheon's protocol and in its formats.

    \b
    Example:
      ccatune pantheon schemes
      ccatune pantheon setup --schemes "tquic-copa"
      ccatune pantheon test --schemes "cubic bbr gr" --emulator configs/emulators/poisson-12mbps.yaml --data-dir out
      ccatune pantheon report --data-dir out
    """


@pantheon.command()
@_checkout
@_json
def schemes(checkout: Path | None, *, as_json: bool) -> None:
    """List the schemes, the Debian packages that each lacks, and why a scheme cannot run here.

    \b
    Example:
      ccatune pantheon schemes --pantheon ~/pantheon
    """
    rows = [_row(scheme) for scheme in read_schemes(checkout).values()]
    if as_json:
        echo(json.dumps(rows, indent=1))
        return
    columns = {
        "scheme": Column("scheme", least=16),
        "name": Column("name", least=16, cut="end"),
        "listens": Column("listens"),
        "missing_packages": Column("missing packages", least=16, cut="end"),
    }
    print_table(list(columns.values()), ([row[name] for name in columns] for row in rows))
    for row in (row for row in rows if row["problem"]):
        echo(f"{row['scheme']}: {row['problem']}")


def _row(scheme: Scheme) -> dict[str, str]:
    from emulation.pantheon.flows import check_scheme

    row = {"scheme": scheme.name, "name": scheme.label, "listens": "", "missing_packages": "", "problem": ""}
    try:
        row |= {"listens": scheme.run_first(), "missing_packages": " ".join(not_installed(scheme.deps()))}
        check_scheme(scheme)
    except SchemeError as error:
        row["problem"] = str(error).removeprefix(f"{scheme.name}: ")
    return row


def not_installed(packages: Sequence[str]) -> list[str]:
    """Return the Debian packages that are not installed here; all of them on another distribution."""
    if not packages or not (program := shutil.which("dpkg-query")):
        return list(packages)
    form = "${Package} ${db:Status-Status}\n"
    listed = subprocess.run([program, "-W", "-f", form, "--", *packages], capture_output=True, text=True, check=False)
    return [name for name in packages if f"{name} installed" not in listed.stdout.splitlines()]


@pantheon.command()
@_checkout
@click.option("--schemes", "names", metavar='"SCHEME1 SCHEME2..."', help="Schemes to set up.")
@click.option("--all", "every", is_flag=True, help="Set up all schemes.")
def setup(checkout: Path | None, *, names: str | None, every: bool) -> None:
    """Build schemes, and apply the settings that they need after each restart of the machine.

    Builds are kept in the user's cache.

    \b
    Example:
      ccatune pantheon setup --schemes "tquic-copa tquic-bbr3"
    """
    known = read_schemes(checkout)
    if every == (names is not None):
        raise click.UsageError("expected either --schemes or --all")
    failed = 0
    for scheme in known.values() if every else schemes_of(words_of(names or ""), known):
        echo(f"{scheme.name}: setting up", err=True)
        try:
            scheme.set_up()
            echo(f"{scheme.name}: ready")
        except SchemeError as error:
            failed += 1
            echo(str(error), err=True)
    if failed:
        sys.exit(1)


def ensembles_of(given: Sequence[str]) -> dict[str, Path]:
    """Return the files of `--ensemble CCA=FILE`, by algorithm.

    Raises EmulationError if a value of the option has another form, or an algorithm is given twice.
    """
    found: dict[str, Path] = {}
    for text in given:
        cca, equals, file = text.partition("=")
        if not equals or not cca or not file:
            raise EmulationError(f"--ensemble: expected CCA=FILE, got {text}")
        if cca in found:
            raise EmulationError(f"--ensemble: expected one ensemble of {cca}, got two")
        found[cca] = Path(file)
    return found


def parameters_of(given: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the values of `--param CCA.NAME=VALUE`, by algorithm and parameter.

    Raises EmulationError if a value of the option has another form, or a parameter's value is out of the parameter's
    range.
    """
    found: dict[str, dict[str, int]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        cca, dot, name = name.partition(".")
        if not (equals and dot and value.isdecimal()):
            raise EmulationError(f"--param: expected CCA.NAME=VALUE with a whole number, got {text}")
        if cca not in ALGORITHMS:
            raise EmulationError(f"--param: expected one of the algorithms {', '.join(ALGORITHMS)}, got {cca}")
        spec = ALGORITHMS[cca].param(name)
        if not spec.minimum <= int(value) <= spec.maximum:
            raise EmulationError(
                f"--param: expected {name} from {spec.minimum} to {spec.maximum} {spec.unit}, got {value}"
            )
        found.setdefault(cca, {})[name] = int(value)
    return found
