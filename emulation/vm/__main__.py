# SPDX-License-Identifier: MIT
"""`python -m emulation.vm`: build the modules, boot a kernel line, run a command in it.

Examples:
    python -m emulation.vm build
    python -m emulation.vm run --kernel 6.12 sh script.sh
    python -m emulation.vm run --kernel 6.1 --modules sh -c 'cat /proc/net/ccatune/gr/status'
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from emulation.errors import EmulationError
from emulation.vm.guest import run_in_guest
from emulation.vm.kernels import FULL_LINE, LINES
from emulation.vm.modules import build_modules, load_order
from kmod.terminal import echo


@click.group()
def main() -> None:
    """Build kernel modules for the kernel lines of the virtual machine, and run commands there."""


@main.command()
@click.option("--kernel", "lines", multiple=True, type=click.Choice(LINES), help="Only this line.")
@click.option("--sparse", is_flag=True, help="Check with sparse too.")
@click.option("--anew", is_flag=True, help="Build from nothing.")
def build(*, lines: tuple[str, ...], sparse: bool, anew: bool) -> None:
    """Build the modules for the kernel lines; exit 1 if a warning was printed."""
    warnings = 0
    for line in lines or LINES:
        built = build_modules(line, sparse=sparse, anew=anew)
        warnings += len(built.warnings)
        for text in built.warnings:
            echo(text, err=True)
        for path in built.paths.values():
            echo(path)
    sys.exit(1 if warnings else 0)


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--kernel", "line", default=FULL_LINE, show_default=True, type=click.Choice(LINES), help="Which line.")
@click.option("--modules", "with_modules", is_flag=True, help="Build and load the modules first.")
@click.option("--timeout", "timeout_s", default=300.0, show_default=True, help="Seconds until it is ended.")
@click.option("--files", type=click.Path(path_type=Path, file_okay=False), help="Folder shared with the guest.")
@click.option("--kernel-log", is_flag=True, help="Print the kernel's log at the end.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *,
    line: str,
    with_modules: bool,
    timeout_s: float,
    files: Path | None,
    kernel_log: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as root in the guest and exit with its status. Files have the same paths there as here."""
    words = list(command)
    if with_modules:
        paths = build_modules(line).paths
        load = " && ".join(f"insmod '{paths[name]}'" for name in load_order(paths))
        words = ["sh", "-c", load + ' && exec "$@"', "sh", *words]
    here = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(Path.cwd())]
    result = run_in_guest(line, [*here, *words], timeout_s=timeout_s, files=files)
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    if kernel_log:
        sys.stderr.write(result.kernel_log)
    sys.exit(result.status)


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except EmulationError as error:
        echo(f"emulation.vm: {error}", err=True)
        sys.exit(2)
