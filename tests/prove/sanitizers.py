# SPDX-License-Identifier: MIT
"""Builds the engine under sanitizers and runs its tests on that build.

    python -m tests.prove.sanitizers            address and undefined behaviour, then threads
    python -m tests.prove.sanitizers thread     that one alone

Each build has its own folder, build/sanitize-NAME. Python itself is not sanitized: the sanitizer's runtime is loaded
in front of it, leaks are not looked for (Python keeps much to its end), and of threads only what the engine does is
seen. A finding ends the process that made it, so its test fails, and what was found stands in the output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent / "sanitized"
TESTS = (
    "tests/emulation/engine",
    "tests/emulation/run/test_simulator.py",
    "tests/training/evaluation/test_evaluator.py",
)
# Runs of hours are for builds that are 20 times as fast.
LEFT_OUT = "test_control_c_stops_a_run_that_would_take_an_hour"
FOUND = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:")


@dataclass(frozen=True)
class Sanitizer:
    """A build: what the compiler is told, the runtimes that go in front of Python, and their options."""

    name: str
    flags: str
    runtimes: tuple[str, ...]
    options: dict[str, str]
    prefix: tuple[str, ...] = ()


SANITIZERS = {
    "address": Sanitizer(
        "address",
        "address,undefined",
        # The C++ library behind the runtime: this finds the throw that it is to watch.
        ("libasan.so", "libubsan.so", "libstdc++.so.6"),
        {
            "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:exitcode=86",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
    ),
    # Its shadow memory wants addresses where this kernel's randomisation may not leave them.
    "thread": Sanitizer(
        "thread",
        "thread",
        ("libtsan.so", "libstdc++.so.6"),
        {"TSAN_OPTIONS": "halt_on_error=1:exitcode=86:second_deadlock_stack=1"},
        ("setarch", "-R"),
    ),
}


def build(sanitizer: Sanitizer) -> Path:
    """Build the engine, and return the module's file. Raises click.ClickException with the compiler's words."""
    folder, programs = REPOSITORY / "build" / f"sanitize-{sanitizer.name}", Path(sys.executable).parent
    configure = [
        str(programs / "cmake"), "-S", ".", "-B", str(folder), "-G", "Ninja", "-DCCATUNE_WERROR=ON",
        f"-DCCATUNE_SANITIZE={sanitizer.flags}", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_MAKE_PROGRAM={programs / 'ninja'}",
    ]  # fmt: skip
    for command in (configure, [str(programs / "cmake"), "--build", str(folder)]):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if done.returncode:
            raise click.ClickException(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return next(folder.glob("_engine*.so"))


def runtime(name: str) -> str:
    """Where the compiler has that library."""
    done = subprocess.run(["c++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return str(Path(done.stdout.strip()).resolve())


def run_tests(sanitizer: Sanitizer, engine: Path, tests: tuple[str, ...]) -> tuple[bool, str]:
    """Run the tests on that engine: whether they pass without a finding, and what they say last."""
    command = [
        *sanitizer.prefix, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
        "--deselect", f"tests/emulation/engine/test_determinism.py::{LEFT_OUT}", *tests,
    ]  # fmt: skip
    environment = {
        **os.environ,
        **sanitizer.options,
        "CCATUNE_ENGINE": str(engine),
        "PYTHONPATH": str(HERE),
        "PYTHONMALLOC": "malloc",  # so that what Python gives the engine is watched too
        "LD_PRELOAD": " ".join(runtime(name) for name in sanitizer.runtimes),
    }
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    lines = []
    for line in process.stdout:
        click.echo(line, nl=False)
        lines.append(line)
    findings = [line.strip() for line in lines if FOUND.search(line)]
    passed = re.findall(r"(\d+) passed", "".join(lines))
    holds = process.wait() == 0 and not findings and bool(passed)
    words = f"{passed[-1] if passed else 'no'} tests passed, {len(findings)} findings"
    return holds, f"{sanitizer.flags}: {words}{': ' + findings[0] if findings else ''}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(SANITIZERS)))
@click.option("--test", "tests", multiple=True, help="A test to run instead of the engine's; repeatable.")
def main(*, names: tuple[str, ...], tests: tuple[str, ...]) -> None:
    """Run the engine's tests under the sanitizers NAMES (all by default)."""
    results = []
    for name in names or tuple(SANITIZERS):
        click.echo(f"building the engine with {SANITIZERS[name].flags}", err=True)
        results.append(run_tests(SANITIZERS[name], build(SANITIZERS[name]), tests or TESTS))
    click.echo("; ".join(words for _, words in results))
    sys.exit(0 if all(holds for holds, _ in results) else 1)


if __name__ == "__main__":
    main()
