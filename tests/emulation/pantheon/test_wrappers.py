# SPDX-License-Identifier: MIT
"""The wrappers of comparison schemes: their verbs, and what they say when a tool or a build is missing.

Stand-ins take the place of cargo and the other tools, so that nothing is compiled or fetched here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

WRAPPERS = Path(__file__).parents[3] / "emulation/pantheon/wrappers"

SCHEMES = {
    "tquic-copa": ["tquic.py", "copa"],
    "tquic-copa-0.5": ["tquic.py", "copa-0.5"],
    "tquic-bbr3": ["tquic.py", "bbr3"],
    "libtorrent-ledbat": ["ledbat.py"],
    "quic-go-reno": ["go_program.py", "quic_go"],
    "pion-gcc": ["go_program.py", "gcc"],
}
# One for each file.
every_wrapper = pytest.mark.parametrize("scheme", ["tquic-copa", "libtorrent-ledbat", "quic-go-reno", "pion-gcc"])

# It makes the binary that a release build has, and notes its call.
CARGO = """#!/bin/sh
case "$1" in --version) echo cargo 1.96.0; exit 0;; esac
echo called >> "$CALLS"
/bin/mkdir -p "$5/release"
printf '#!/bin/sh\\necho "$@"\\n' > "$5/release/ccatune-tquic"
/bin/chmod +x "$5/release/ccatune-tquic"
"""
BROKEN_CARGO = """#!/bin/sh
case "$1" in --version) echo cargo 1.96.0; exit 0;; esac
echo "no such package" >&2
exit 101
"""


class Machine:
    """Runs wrappers with the programs of one folder alone on the PATH, and an empty folder of builds."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "programs"
        self.builds = folder / "builds"
        self.calls = folder / "calls"
        self.programs.mkdir()
        self.environment = {
            "PATH": str(self.programs),
            "HOME": str(folder),
            "CCATUNE_SCHEMES": str(self.builds),
            "CALLS": str(self.calls),
        }

    def has(self, program: str, script: str) -> None:
        """Put a program on the PATH."""
        path = self.programs / program
        path.write_text(script)
        path.chmod(0o755)

    def has_tools(self, cargo: str) -> None:
        """Put the tools for tquic on the PATH, with this cargo."""
        self.has("cargo", cargo)
        for program in ("rustc", "cmake", "make", "g++"):
            self.has(program, "#!/bin/sh\necho 99.9\n")

    def run(self, scheme: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the wrapper of a scheme."""
        wrapper, *first = SCHEMES[scheme]
        command = [sys.executable, str(WRAPPERS / wrapper), *first, *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=self.environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@every_wrapper
def test_the_receiver_runs_first(machine: Machine, scheme: str) -> None:
    done = machine.run(scheme, "run_first")
    assert (done.returncode, done.stdout, done.stderr) == (0, "receiver\n", "")


@every_wrapper
def test_nothing_is_needed_after_a_reboot(machine: Machine, scheme: str) -> None:
    done = machine.run(scheme, "setup_after_reboot")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("scheme", "packages"),
    [
        ("tquic-copa", "cargo-web rustc-web cmake make g++"),
        ("quic-go-reno", "golang-go"),
        ("pion-gcc", "golang-go"),
    ],
)
def test_the_packages_of_missing_tools_are_dependencies(machine: Machine, scheme: str, packages: str) -> None:
    assert machine.run(scheme, "deps").stdout.split() == packages.split()


def test_the_check_names_what_is_missing_until_the_scheme_is_built(machine: Machine) -> None:
    assert "expected cargo 1.88 or newer to build tquic 1.6.0, found none" in machine.run("tquic-copa", "check").stderr
    machine.has_tools(CARGO)
    done = machine.run("tquic-copa", "check")
    assert (done.returncode, done.stdout) == (0, "")
    assert "run `ccatune pantheon setup --schemes tquic-copa`" in done.stderr
    assert machine.run("tquic-copa", "setup").returncode == 0
    done = machine.run("tquic-copa", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_tools_on_the_path_are_no_dependencies(machine: Machine) -> None:
    machine.has_tools(CARGO)
    done = machine.run("tquic-copa", "deps")
    assert (done.returncode, done.stdout) == (0, "\n")


@every_wrapper
@pytest.mark.parametrize("words", [["receiver", "5000"], ["sender", "10.0.0.1", "5000"]])
def test_an_end_without_a_build_names_the_command_that_makes_it(
    machine: Machine, scheme: str, words: Sequence[str]
) -> None:
    done = machine.run(scheme, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"expected the build of {scheme} at {machine.builds}/")
    assert done.stderr.endswith(f"found none; run `ccatune pantheon setup --schemes {scheme}`\n")


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("tquic-bbr3", "expected cargo 1.88 or newer to build tquic 1.6.0, found none on the PATH; install"),
        ("quic-go-reno", "expected go 1.26 or newer to build quic-go 0.65.0, found none on the PATH; install"),
        ("pion-gcc", "expected go 1.26 or newer to build pion/interceptor 0.1.51, found none on the PATH; install"),
    ],
)
def test_setup_names_a_missing_tool(machine: Machine, scheme: str, words: str) -> None:
    done = machine.run(scheme, "setup")
    assert done.returncode == 2
    assert done.stderr.startswith(words)
    assert not machine.builds.exists()


def test_setup_refuses_an_old_tool(machine: Machine) -> None:
    machine.has_tools("#!/bin/sh\necho cargo 1.66.1\n")
    done = machine.run("tquic-copa", "setup")
    assert done.returncode == 2
    assert done.stderr.startswith("expected cargo 1.88 or newer to build tquic 1.6.0, got cargo 1.66.1; install")


def test_one_build_serves_all_algorithms_of_a_library(machine: Machine) -> None:
    machine.has_tools(CARGO)
    for scheme in ("tquic-copa", "tquic-bbr3"):
        done = machine.run(scheme, "setup")
        assert (done.returncode, done.stderr) == (0, "")
    assert machine.calls.read_text() == "called\n"
    assert machine.run("tquic-bbr3", "sender", "10.0.0.1", "5000").stdout == "sender bbr3 10.0.0.1 5000\n"
    assert machine.run("tquic-copa-0.5", "sender", "10.0.0.1", "5000").stdout == "sender copa-0.5 10.0.0.1 5000\n"
    assert machine.run("tquic-copa", "receiver", "5000").stdout == "receiver 5000\n"


def test_a_failed_build_says_so_and_leaves_no_build(machine: Machine) -> None:
    machine.has_tools(BROKEN_CARGO)
    done = machine.run("tquic-copa", "setup")
    assert done.returncode == 2
    assert done.stderr.startswith("no such package\ncannot build tquic 1.6.0: cargo ended with status 101;")
    assert [path.name for path in machine.builds.iterdir()] == [".tquic.lock"]


def test_a_package_that_cannot_be_fetched_is_named(machine: Machine) -> None:
    machine.environment["PIP_NO_INDEX"] = "1"
    done = machine.run("libtorrent-ledbat", "setup")
    assert done.returncode == 2
    assert "libtorrent==2.1.1" in done.stderr
    assert "access to its package registry" in done.stderr.splitlines()[-1]


def test_a_build_that_was_killed_is_removed_by_the_next(machine: Machine) -> None:
    machine.has_tools(CARGO)
    left = machine.builds / ".tquic.building-killed"
    left.mkdir(parents=True)
    assert machine.run("tquic-copa", "setup").returncode == 0
    assert not left.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "got nothing"),
        (["vegas", "deps"], "got vegas"),
        (["copa-", "deps"], "got copa-"),
        (["bbr-2", "deps"], "got bbr-2"),
    ],
)
def test_an_unknown_algorithm_is_refused(words: Sequence[str], message: str) -> None:
    command = [sys.executable, str(WRAPPERS / "tquic.py"), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"tquic.py: expected copa, copa-DELTA, bbr, bbr3 or cubic before the verb, {message}\n"


@pytest.mark.parametrize("words", [[], ["start"], ["receiver"], ["receiver", "http"], ["sender", "5000"]])
def test_a_wrong_verb_is_refused(machine: Machine, words: Sequence[str]) -> None:
    done = machine.run("tquic-copa", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tquic-copa: expected deps, run_first, setup,")
    assert done.stderr.endswith(f"got {' '.join(words) or 'nothing'}\n")


def test_a_relative_folder_of_builds_is_refused(machine: Machine) -> None:
    machine.environment["CCATUNE_SCHEMES"] = "builds"
    done = machine.run("tquic-copa", "receiver", "5000")
    assert done.returncode == 2
    assert done.stderr == "expected an absolute folder in CCATUNE_SCHEMES, got builds; give the whole path\n"


def test_every_wrapper_is_executable() -> None:
    for wrapper in {words[0] for words in SCHEMES.values()}:
        assert os.access(WRAPPERS / wrapper, os.X_OK)
