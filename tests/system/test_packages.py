# SPDX-License-Identifier: MIT
"""The Debian packages: built once, and what is in them. The campaign `packages` installs and removes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bpf.sole import built_program

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = {"dh": "debhelper", "dh_dkms": "dh-dkms", "dh_python3": "dh-python", "help2man": "help2man"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages by name."""
    lacking = [
        package for program, package in {**PROGRAMS, "clang-19": "clang-19"}.items() if not shutil.which(program)
    ]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)} (make setup)")
    folder = tmp_path_factory.mktemp("packages")
    built_program()
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*wheel, str(REPOSITORY / "packaging" / "agent")], check=True)
    (made,) = folder.glob("*.whl")
    build = [sys.executable, str(REPOSITORY / "packaging" / "build_packages.py")]
    subprocess.run([*build, "--wheel", str(made), "--out", str(folder / "out")], check=True, stdout=subprocess.DEVNULL)
    return {path.name.partition("_")[0]: path for path in (folder / "out").iterdir()}


def files_of(package: Path) -> set[str]:
    """The paths of its files."""
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    return {line.split()[5].removeprefix(".") for line in listed.splitlines() if not line.startswith("d")}


def field(package: Path, name: str) -> str:
    """A field of its control file."""
    done = subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_there_are_three_packages_of_the_wheels_version(packages: dict[str, Path]) -> None:
    assert set(packages) == {"ccatune-agent", "ccatune-bpf", "ccatune-dkms"}
    (version,) = {field(path, "Version") for path in packages.values()}
    ours = subprocess.run([sys.executable, "-m", "ccatune", "--version"], check=True, capture_output=True, text=True)
    assert version == ours.stdout.split()[-1]


def test_the_agent_is_pure_python_with_its_unit_and_keeps_to_its_own_folder(packages: dict[str, Path]) -> None:
    package = packages["ccatune-agent"]
    assert field(package, "Architecture") == "all"
    assert "python3-click" in field(package, "Depends")
    files = files_of(package)
    assert files >= {"/usr/bin/ccatune-agent", "/lib/systemd/system/ccatune-agent.service"}
    allowed = ("/usr/share/ccatune-agent/", "/usr/share/doc/", "/usr/share/man/", "/usr/share/python3/")
    assert {name for name in files if not name.startswith(allowed)} == {
        "/usr/bin/ccatune-agent",
        "/lib/systemd/system/ccatune-agent.service",
    }


def test_the_modules_come_as_sources_for_dkms(packages: dict[str, Path]) -> None:
    package = packages["ccatune-dkms"]
    assert "dkms" in field(package, "Depends")
    files = {name for name in files_of(package) if not name.startswith("/usr/share/doc/")}
    source = f"/usr/src/ccatune-{field(package, 'Version')}"
    assert files >= {f"{source}/dkms.conf", f"{source}/linux/tcp_gr.c", f"{source}/core/gr.h"}
    assert {Path(name).suffix for name in files} <= {".c", ".h", ".def", ".conf", ""}


def test_bpf_is_one_program_that_needs_libbpf_and_gives_the_agent_its_rights(packages: dict[str, Path]) -> None:
    package = packages["ccatune-bpf"]
    assert "libbpf1" in field(package, "Depends")
    assert files_of(package) >= {
        "/usr/bin/ccatune-bpf",
        "/lib/systemd/system/ccatune-agent.service.d/bpf.conf",
        "/usr/share/man/man1/ccatune-bpf.1.gz",
    }
