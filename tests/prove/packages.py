# SPDX-License-Identifier: MIT
"""Installs the Debian packages in a new root of this machine's Debian release, uses them, and removes them.

    python -m tests.prove.packages

`make packages` builds them, and lintian finds no error and no warning. mmdebstrap makes the root from the machine's own
sources of packages, with what the four depend on and the headers of Debian's kernel. dpkg installs them there, so that
a dependency that is not stated fails. DKMS builds all modules for the headers. The registry runs as its user with the
command line of its unit, and the commands of docs/quickstart.md bring a signed table in force, in a stand-in for the
kernel's files. After the purge no file and no user is left. Exits 0 where all of this holds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from kmod.ensemble import Ensemble
from serving.names import EXAMPLE_DOCUMENT

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "packaging")]

import guest_files  # noqa: E402 - found on the path just made

SCRIPT = Path(__file__).with_name("packages_in_root.sh")
QUICKSTART = REPOSITORY / "docs" / "quickstart.md"
PACKAGES = REPOSITORY / "dist"
HEADERS = "linux-headers-amd64"
# An agent that verifies signatures needs it, and apt would install it.
RECOMMENDED = "python3-cryptography"
ROOT_FOLDER = "/ccatune-packages"


def dependencies(package: Path) -> set[str]:
    """The names of the packages that one depends on."""
    listed = run("dpkg-deb", "--field", package, "Depends")
    return {re.split(r"[ (|:]", part.strip())[0] for part in listed.split(",") if part.strip()}


def run(*arguments: str | Path) -> str:
    """Run a command, show its complaints, and return its output. Raises click.ClickException if it fails."""
    done = subprocess.run([str(a) for a in arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{arguments[0]}: status {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def try_in_root(packages: list[Path], *, folder: Path) -> str:
    """Install, use and remove the packages in a new root. Return the output. folder: for the files of the try."""
    apt = guest_files.Apt(guest_files.cache_root() / "apt")
    apt.prepare()
    Ensemble.from_json(EXAMPLE_DOCUMENT).save(folder / "gr.json")
    wanted = sorted({HEADERS, RECOMMENDED}.union(*map(dependencies, packages)))
    inside = f"{ROOT_FOLDER}/{SCRIPT.name} {ROOT_FOLDER}"
    copied = " ".join(str(path) for path in [*packages, SCRIPT, folder / "gr.json", QUICKSTART])
    return run(
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        "--format=null",
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        f"--include={','.join(wanted)}",
        f'--customize-hook=mkdir "$1{ROOT_FOLDER}"',
        f"--customize-hook=copy-in {copied} {ROOT_FOLDER}",
        # The registry's port is that of a namespace, because this machine may use it.
        f'--customize-hook=unshare --net sh -c "ip link set lo up && exec chroot \\"\\$0\\" sh {inside}" "$1" >&2',
        guest_files.codename(),
        "-",
        apt.root / "sources.list",
    )


@click.command()
def main() -> None:
    """Build, check, install and remove; exit 0 where everything held."""
    if missing := [name for name in ("dh", "lintian", "mmdebstrap") if shutil.which(name) is None]:
        raise click.ClickException(f"expected {', '.join(missing)}, not installed; run `make setup` as root")
    run("make", "-s", "packages")
    packages = sorted(PACKAGES.glob("*.deb"))
    run("lintian", "--allow-root", "--fail-on", "error,warning", *packages)
    with tempfile.TemporaryDirectory(prefix="ccatune-packages-") as name:
        try_in_root(packages, folder=Path(name))
    names = ", ".join(path.name.partition("_")[0] for path in packages)
    click.echo(f"{names}: no complaint of lintian; installed, used and removed in a new root, nothing left")


if __name__ == "__main__":
    main()
